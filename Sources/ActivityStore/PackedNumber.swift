/// Factors by which the script `admit` packs several values into one number: value × factor + rest. Each factor is
/// larger than every possible rest.
enum PackedNumber {
    /// The factor for a timestamp. In a call, the rest is the request and the pace's number. In a reply, the rest is
    /// the priority and the number of pushes left.
    static let timestampFactor: Int64 = 1 << 16
    /// The factor for a call's request (``CallBits``). The rest is the byte with the pace's number.
    static let requestFactor: Int64 = 1 << 8
    /// The factor for the priority in a reply. The rest is the number of pushes left.
    static let priorityFactor: Int64 = 1 << 14
    /// The factor for the time of the last send verdict in a value. The rest is the byte with the state.
    static let lastSendTimeFactor: Int64 = 1 << 8
    /// The factor for the token's length in a value's first seven bytes. The rest is the last second of the activity's
    /// first eight hours.
    static let tokenLengthFactor: Int64 = 1 << 32
    /// The factor for the token's form in a value's first seven bytes. The rest is the token's length and that second.
    static let tokenFormFactor: Int64 = 1 << 48
}

/// The priority of a send verdict, as the script numbers it.
enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
}
