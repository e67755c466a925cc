/// Identifies a call of the store by its purpose and its slot. The ticket is the call's tag.
struct AudienceTicket: Equatable, BitwiseCopyable {
    enum Purpose: UInt8, BitwiseCopyable {
        /// For a command: a page of one segment, to estimate the size of the audience.
        case size
        case admit
        case settle
        // For a round.
        case claim
        case checkpoint
        /// For a version of a round.
        case finish
        /// For a broadcast.
        case finishBroadcast
        // For a page.
        case directory
        case page
        /// For a notice: removes a member whose token is dead from its segment.
        case removeMember
        /// For a membership: gives the next audience its entry.
        case changeMember
        /// For a question: asks for an audience's newest state.
        case newest
    }

    var purpose: Purpose
    /// For `size`: the index of the segment.
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
