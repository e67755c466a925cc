/// How the script `admit` puts two numbers into one: first × factor + second. The second number is less than the
/// factor. So a division by the factor gives the first number, and the remainder is the second. For example, 3 × 256 +
/// 17 = 785, and 785 ÷ 256 is 3, with the remainder 17.
enum PackedNumber {
    /// In a call and in a reply: timestamp × this factor + a number that is packed in the same way, from two others.
    static let timestampFactor: Int64 = 1 << 16
    /// The number beside a call's timestamp: byte 15 (``CallByte15Bits``) × this factor + byte 14 (the number of the
    /// pace's argument).
    static let requestFactor: Int64 = 1 << 8
    /// The number beside a reply's timestamp: ``SentPriority`` × this factor + the number of pushes left in the budget.
    static let priorityFactor: Int64 = 1 << 14
    /// Bytes 14–20 of an activity's value: the time of the last send verdict × this factor + the byte of the phase.
    static let sentAtFactor: Int64 = 1 << 8
    /// Bytes 1–7 of an activity's value: byte 7 (the token's form and its flags) × ``flagsFactor`` + the token's length
    /// × this factor + the last second of the activity's first eight hours, in which Redis admits updates.
    static let lengthFactor: Int64 = 1 << 32
    /// See ``lengthFactor``.
    static let flagsFactor: Int64 = 1 << 48
}

/// The priority of a send verdict, as the script numbers it.
enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
}
