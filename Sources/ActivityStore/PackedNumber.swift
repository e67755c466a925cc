/// How the script `admit` puts several values into one number: value × factor + rest. Each rest is less than its
/// factor, so a division by the factor gives back the value, and its remainder is the rest.
enum PackedNumber {
    /// For a number that is timestamp × this factor + rest. In a call, the rest is the call's bytes 15 (``CallBits``)
    /// and 14 (the number of the pace's argument). In a reply, the rest is the priority and the number of pushes left.
    static let timestampFactor: Int64 = 1 << 16
    /// For the rest in a call: byte 15 (``CallBits``) × this factor + byte 14 (the number of the pace's argument).
    static let requestFactor: Int64 = 1 << 8
    /// For the rest in a reply: ``SentPriority`` × this factor + the number of pushes left in the budget.
    static let priorityFactor: Int64 = 1 << 14
    /// For bytes 14–20 of an activity's value: the time of the last send verdict × this factor + the state's byte.
    static let lastSendTimeFactor: Int64 = 1 << 8
    /// For the token's length in bytes 1–7 of an activity's value, which are one number: form × ``tokenFormFactor`` +
    /// length × this factor + the last second of the activity's first eight hours. In these hours Redis admits updates.
    static let tokenLengthFactor: Int64 = 1 << 32
    /// For the token's form in bytes 1–7 of an activity's value, see ``tokenLengthFactor``.
    static let tokenFormFactor: Int64 = 1 << 48
}

/// The priority of a send verdict, as the script numbers it.
enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
}
