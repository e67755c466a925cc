/// Identifies a call of the store: what it is for, and for which slot. A call's tag is its ticket.
struct AudienceTicket: Equatable, BitwiseCopyable {
    enum Purpose: UInt8, BitwiseCopyable {
        /// Of a command: how large the audience is, by a page of one segment.
        case size
        case admit
        case settle
        // Of a round.
        case claim
        case checkpoint
        /// Of a version of a round.
        case finish
        /// Of a broadcast.
        case finishBroadcast
        // Of a page.
        case directory
        case page
        /// Of a notice: a member whose token is dead leaves its segment.
        case leave
        /// Of a membership: the next audience gets its entry.
        case tell
        /// Of a question: what an audience shows.
        case newest
    }

    var purpose: Purpose
    /// Of `size`: which segment.
    var part: UInt8 = 0
    var index: UInt32

    init(_ purpose: Purpose, part: UInt8 = 0, index: UInt32) {
        self.purpose = purpose
        self.part = part
        self.index = index
    }

    var tag: UInt64 { UInt64(purpose.rawValue) << 48 | UInt64(part) << 32 | UInt64(index) }

    init?(tag: UInt64) {
        guard let purpose = Purpose(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        self.init(purpose, part: UInt8(truncatingIfNeeded: tag >> 32), index: UInt32(truncatingIfNeeded: tag))
    }
}
