/// How the script `admit` puts two numbers into one: left × factor + right. The right number is less than the factor.
/// So a division by the factor gives the left number, and the remainder is the right one. For example, 3 × 256 + 17 =
/// 785, and 785 ÷ 256 is 3, with the remainder 17. The right number may itself consist of two numbers.
enum PackedNumber {
    /// Packs a timestamp (left) and a second number (right): in a call the one that ``requestFactor`` packs, in a reply
    /// the one that ``priorityFactor`` packs. For example, 1,790,000,000 × 65,536 + 770.
    static let timestampFactor: Int64 = 1 << 16
    /// Packs the request of a call. Left: byte 15 (``CallRequestBits``). Right: byte 14 (``PaceByteFlags`` and the
    /// number of the pace's argument). For example, 3 × 256 + 2 = 770.
    static let requestFactor: Int64 = 1 << 8
    /// Packs a part of a reply. Left: ``GrantedPriority``. Right: the number of pushes left in the budget. For example,
    /// 2 × 16,384 + 7: high priority, and 7 pushes are left.
    static let priorityFactor: Int64 = 1 << 14
    /// Packs bytes 14–20 of an activity's value. Left: the time at which Redis last allowed a push. Right: the byte of
    /// the phase. For example, 1,790,000,000,123 × 256 + 97, the letter `a`.
    static let sentAtFactor: Int64 = 1 << 8
    /// Packs bytes 1–6 of an activity's value. Left: the token's length with flags (bytes 5–6). Right: the last second
    /// in which Redis admits updates (bytes 1–4). For example, 80 × 2³² + 1,790,028,200.
    static let tokenByteCountFactor: Int64 = 1 << 32
    /// Packs bytes 1–7 of an activity's value. Left: the token's form with flags (byte 7). Right: the number that
    /// ``tokenByteCountFactor`` packs.
    static let flagsFactor: Int64 = 1 << 48
}

/// The priority that Redis grants a push. The raw value is the digit that the script `admit` writes into its reply.
enum GrantedPriority: UInt8 {
    /// The command gets priority 5, as it asked.
    case low = 1
    case high
    /// The command asked for priority 10, and gets 5: its budget is empty, or has only the reserve for alerts and ends.
    case demoted
}
