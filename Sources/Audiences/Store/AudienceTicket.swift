/// Identifies a call of the audience store by its purpose and its slot. The tag of the call contains the ticket, so a
/// reply leads to its slot without a table of calls.
struct AudienceTicket: Equatable, BitwiseCopyable {
    enum Purpose: UInt8, BitwiseCopyable {
        /// Reads a page of one segment for a command, to estimate the size of the audience.
        case samplePage
        case admit
        case settle
        // Calls for a round.
        case claim
        case checkpoint
        /// Adds the counts of one range to the counts of the whole command, after a version is finished in this range.
        case finishRange
        /// Adds a finished broadcast to the counts of the whole command.
        case finishBroadcast
        // Calls that read the members of a segment for a round: the list of pages, if it is needed, and a page.
        case directory
        case page
        /// Removes a member from its audience, because its token is dead; see ``RefusedMemberSlot``.
        case removeMember
        /// Tells one audience about a change of a member: it joins, leaves, or has other data. See
        /// ``MembershipChangeSlot``.
        case changeMember
        /// Requests an audience's newest state; see ``NewestStateRequest``.
        case newestState
    }

    var purpose: Purpose
    /// For `samplePage`: the index of the segment in ``Audiences/sampledSegments``.
    var sampleIndex: UInt8 = 0
    var index: UInt32

    init(_ purpose: Purpose, sampleIndex: UInt8 = 0, index: UInt32) {
        self.purpose = purpose
        self.sampleIndex = sampleIndex
        self.index = index
    }

    var tag: UInt64 { UInt64(purpose.rawValue) << 48 | UInt64(sampleIndex) << 32 | UInt64(index) }

    init?(tag: UInt64) {
        guard let purpose = Purpose(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        self.init(purpose, sampleIndex: UInt8(truncatingIfNeeded: tag >> 32), index: UInt32(truncatingIfNeeded: tag))
    }
}
