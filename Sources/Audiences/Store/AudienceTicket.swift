import Delivery

/// The purpose of a call to the audience store, and the slot that needs the reply. The tag of the call contains both,
/// so a reply leads to its slot without a table of calls.
enum AudienceTicket: Equatable, BitwiseCopyable {
    /// Reads a page of one segment for a command, to estimate the size of the audience. `sampleIndex` is the index of
    /// the segment in ``Audiences/sampledSegments``.
    case readSamplePage(CommandIndex, sampleIndex: UInt8)
    case admit(CommandIndex)
    case settle(CommandIndex)
    // Calls for a round (`RoundSlot`): a claim of its range, and a checkpoint of its progress.
    case claim(RoundIndex)
    case checkpoint(RoundIndex)
    /// Adds the counts of one range to the counts of the whole command, after a version is finished in this range.
    case finishRange(RangeVersionIndex)
    /// Adds a finished broadcast to the counts of the whole command.
    case finishBroadcast(BroadcastIndex)
    /// Reads a segment's directory for a round, to find the page that contains a certain position.
    case readDirectory(PageIndex)
    /// Reads one page of members for a round.
    case readPage(PageIndex)
    /// Removes a member from its audience, because its token is dead; see ``RefusedMemberSlot``.
    case removeMember(RefusedMemberIndex)
    /// Tells one audience about a change of a member: it joins, leaves, or has other data. See
    /// ``MembershipChangeSlot``.
    case notifyAudience(MembershipChangeIndex)
    /// Requests an audience's newest state; see ``NewestStateRequest``.
    case readNewestState(NewestStateRequestIndex)

    /// The number that stands for each purpose in a tag.
    private enum Purpose: UInt8 {
        case readSamplePage, admit, settle, claim, checkpoint, finishRange, finishBroadcast, readDirectory, readPage
        case removeMember, notifyAudience, readNewestState
    }

    var tag: UInt64 {
        switch self {
        case .readSamplePage(let command, let sampleIndex):
            Self.tag(.readSamplePage, command.rawValue) | UInt64(sampleIndex) << 32
        case .admit(let command): Self.tag(.admit, command.rawValue)
        case .settle(let command): Self.tag(.settle, command.rawValue)
        case .claim(let round): Self.tag(.claim, round.rawValue)
        case .checkpoint(let round): Self.tag(.checkpoint, round.rawValue)
        case .finishRange(let rangeVersion): Self.tag(.finishRange, rangeVersion.rawValue)
        case .finishBroadcast(let broadcast): Self.tag(.finishBroadcast, broadcast.rawValue)
        case .readDirectory(let page): Self.tag(.readDirectory, page.rawValue)
        case .readPage(let page): Self.tag(.readPage, page.rawValue)
        case .removeMember(let refusedMember): Self.tag(.removeMember, refusedMember.rawValue)
        case .notifyAudience(let change): Self.tag(.notifyAudience, change.rawValue)
        case .readNewestState(let request): Self.tag(.readNewestState, request.rawValue)
        }
    }

    private static func tag(_ purpose: Purpose, _ rawIndex: UInt32) -> UInt64 {
        UInt64(purpose.rawValue) << 48 | UInt64(rawIndex)
    }

    /// Reads a tag; nil if no ticket has this tag.
    init?(tag: UInt64) {
        guard let purpose = Purpose(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        let rawIndex = UInt32(truncatingIfNeeded: tag)
        self =
            switch purpose {
            case .readSamplePage:
                .readSamplePage(CommandIndex(rawValue: rawIndex), sampleIndex: UInt8(truncatingIfNeeded: tag >> 32))
            case .admit: .admit(CommandIndex(rawValue: rawIndex))
            case .settle: .settle(CommandIndex(rawValue: rawIndex))
            case .claim: .claim(RoundIndex(rawValue: rawIndex))
            case .checkpoint: .checkpoint(RoundIndex(rawValue: rawIndex))
            case .finishRange: .finishRange(RangeVersionIndex(rawValue: rawIndex))
            case .finishBroadcast: .finishBroadcast(BroadcastIndex(rawValue: rawIndex))
            case .readDirectory: .readDirectory(PageIndex(rawValue: rawIndex))
            case .readPage: .readPage(PageIndex(rawValue: rawIndex))
            case .removeMember: .removeMember(RefusedMemberIndex(rawValue: rawIndex))
            case .notifyAudience: .notifyAudience(MembershipChangeIndex(rawValue: rawIndex))
            case .readNewestState: .readNewestState(NewestStateRequestIndex(rawValue: rawIndex))
            }
    }
}
