/// The factors of numbers in which the script `admit` packs several values. Each factor is above all values below it.
enum PackedNumber {
    /// Of a timestamp: in a call, above the request and the pace's number; in a reply, above the priority and the
    /// pushes left.
    static let timestampFactor: Int64 = 1 << 16
    /// Of a call's request, above the byte with the pace's number.
    static let requestFactor: Int64 = 1 << 8
    /// Of the priority in a reply, above the pushes left.
    static let priorityFactor: Int64 = 1 << 14
    /// Of the time of the last send verdict in a value, above the byte with the state.
    static let sentFactor: Int64 = 1 << 8
    /// Of the token's length in a value's first seven bytes, above the four bytes of the last second.
    static let lengthFactor: Int64 = 1 << 32
    /// Of the token's form in a value's first seven bytes, above the two bytes of the token's length.
    static let formFactor: Int64 = 1 << 48
}

/// The priority of a send verdict, as the script numbers it.
enum SentPriority: UInt8 {
    case five = 1
    case ten
    case demoted
}
