/// How the script `admit` puts two values into one number: value × factor + rest. The rest is less than the factor. So
/// a division by the factor gives back the value, and the remainder is the rest.
enum PackedNumber {
    /// In a call and in a reply: timestamp × this factor + rest. The rest is packed from two values in the same way.
    static let timestampFactor: Int64 = 1 << 16
    /// The rest beside a call's timestamp: byte 15 (``CallBits``) × this factor + byte 14 (the number of the pace's
    /// argument).
    static let requestFactor: Int64 = 1 << 8
    /// The rest beside a reply's timestamp: ``SentPriority`` × this factor + the number of pushes left in the budget.
    static let priorityFactor: Int64 = 1 << 14
    /// Bytes 14–20 of an activity's value: the time of the last send verdict × this factor + the byte of the
    /// phase.
    static let lastSendTimeFactor: Int64 = 1 << 8
    /// Bytes 1–7 of an activity's value: the token's form × ``tokenFormFactor`` + the token's length × this factor +
    /// the last second of the activity's first eight hours, in which Redis admits updates.
    static let tokenLengthFactor: Int64 = 1 << 32
    /// See ``tokenLengthFactor``.
    static let tokenFormFactor: Int64 = 1 << 48
}

/// The priority of a send verdict, as the script numbers it.
enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
}
