/// How the script `admit` puts two numbers into one: left × factor + right. The right number is less than the factor.
/// So a division by the factor gives the left number, and the remainder is the right one. For example, 3 × 256 + 17 =
/// 785, and 785 ÷ 256 is 3, with the remainder 17. The right number may itself consist of two numbers.
enum PackedNumber {
    /// Packs a timestamp (left) with another number (right). In a call, the right number is the request
    /// (``requestFactor``), for example 1,790,000,000 × 65,536 + 770. In a reply, the right number is the priority and
    /// the pushes left (``priorityFactor``).
    static let timestampFactor: Int64 = 1 << 16
    /// Packs the request of a call: byte 15 (``CallRequestBits``) × this factor + byte 14 (``PaceByteFlags`` and the
    /// number of the pace's argument). For example, 3 × 256 + 2 = 770.
    static let requestFactor: Int64 = 1 << 8
    /// Packs a part of a reply: ``GrantedPriority`` × this factor + the number of pushes left in the budget. For
    /// example, 2 × 16,384 + 7: high priority, and 7 pushes are left.
    static let priorityFactor: Int64 = 1 << 14
    /// Packs bytes 14–20 of an activity's value: the time at which Redis last allowed a push × this factor + the byte
    /// of the phase. For example, 1,790,000,000,123 × 256 + 97, the letter `a`.
    static let sentAtFactor: Int64 = 1 << 8
    /// Packs bytes 1–7 of an activity's value: byte 7 × ``flagsFactor`` + bytes 5–6 × this factor + bytes 1–4. Byte 7
    /// is the token's form with flags, bytes 5–6 are the number of the token's bytes with flags, and bytes 1–4 are the
    /// last second in which Redis admits updates. For example, 1 × 2⁴⁸ + 80 × 2³² + 1,790,028,200.
    static let tokenByteCountFactor: Int64 = 1 << 32
    /// Packs bytes 1–7 of an activity's value: byte 7 × this factor + the number in bytes 1–6 (see
    /// ``tokenByteCountFactor``).
    static let flagsFactor: Int64 = 1 << 48
}

/// The priority that Redis grants a push, as the digit that the script writes into its reply.
enum GrantedPriority: UInt8 {
    /// The command gets priority 5, as it asked.
    case low = 1
    case high
    /// The command asked for priority 10, and gets 5: its budget is empty or has only the reserve.
    case demoted
}
