import Delivery
import LiveActivity

/// Names a page by the index of its slot in `Audiences.pages`.
typealias PageIndex = SlabIndex<PageSlot>

/// A page of members of a round (``RoundSlot``), from its reading to the last outcome of its members.
struct PageSlot: LinkedSlot {
    /// The maximum number of bytes that the core reserves for a page before it is read. Usually a page has at most
    /// about 32 KiB, and the core's data about its members take a few KiB. A page that the store has not compacted or
    /// split yet may have more.
    static let expectedBytesMax = 48 << 10

    /// A page begins in `requestingPage`, or in `requestingDirectory` if its lower bound is not known.
    enum Phase: UInt8, BitwiseCopyable {
        /// The store is reading the directory of the segment, to find the page with ``startPosition``. Next:
        /// `requestingPage`; `ready`, without members, if the store has no readable page with this position;
        /// `discarded`.
        case requestingDirectory
        /// The store is reading the page. Next: `ready`; `requestingDirectory` if the page does not exist, is damaged,
        /// or does not contain ``startPosition``; `discarded`.
        case requestingPage
        /// The members of the page get their turns. Next: `discarded` if the round discards the page while it has
        /// members under way (`underWayMemberCount`). If the page is done, or has no member under way when it is
        /// discarded, the slot is freed.
        case ready
        /// The round no longer needs the page. A page that was being read is freed when the store replies. A page that
        /// was ready is freed when no member of it is under way.
        case discarded

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.discarded, _): false
            case (_, .discarded): true
            case (.requestingDirectory, .requestingPage), (.requestingDirectory, .ready): true
            case (.requestingPage, .requestingDirectory), (.requestingPage, .ready): true
            default: false
            }
        }
    }

    /// The round that reads the page; `.null` if the round discarded the page before it was read.
    var round: RoundIndex
    let appIndex: UInt16
    /// The next page of the round.
    var nextInList = PageIndex.null
    private(set) var phase: Phase
    /// Whether the round needs only the members at ``startPosition``, to park them again: the previous owner of the
    /// partition had parked them.
    var needsOnlyParkedMembers = false
    /// The parked member for which the page is read again, because by now the member may have left the audience, or
    /// have another token. `.null`: the page is read for its round.
    var parkedMember = ParkedMemberIndex.null
    /// The first position on the page that the round needs.
    var startPosition: UInt64
    /// One above the last position of the page. Valid when the page is ready.
    var endPosition: UInt64 = 0
    /// The lower bound (first position) by which the page is requested from Redis.
    var lowerBound: UInt32
    /// The lower bound at which the last request found no readable page, so that this page is not requested again. Nil:
    /// there is none, or the page has waited for missing members since, so the store may have the page by now.
    var unusablePageLowerBound: UInt32?
    var directoryReadCount: UInt8 = 0
    /// Whether the segment has a page behind this one that was not requested yet.
    var hasUnrequestedNextPage = false

    /// The bytes that the page occupies, or is expected to occupy until it has been read.
    var occupiedBytes: Int

    /// Since when the page waits for members that the store may lack (monotonic milliseconds); nil: it has not waited.
    /// The value stays when the wait is over.
    @CompactOptional var membersMissingSinceMilliseconds: Int64?

    /// When the page was read (monotonic milliseconds); `.max`: not yet.
    var readAtMilliseconds: Int64 = .max

    /// The bytes of the page as Redis has them, and behind them three arrays with an element for each member: the place
    /// of the member's entry on the page (`MemberReference`), the version that the member was sent, and the member's
    /// progress.
    private(set) var pageAndArrays = HeapBytes.none
    private(set) var referencesByteOffset = 0
    private var pageByteCount = 0
    /// How many bytes a member takes in each of the three arrays of ``pageAndArrays``.
    private static let referenceBytes = MemoryLayout<MemberReference>.size
    private static let rangeVersionBytes = MemoryLayout<RangeVersionIndex>.size
    private static let progressBytes = MemoryLayout<MemberProgress>.size
    /// The number of members that were read, and the number of those that ``truncate(at:)`` has kept.
    /// `loadedMemberCount` never changes, because the places of the arrays in ``pageAndArrays`` depend on it.
    private var loadedMemberCount: UInt16 = 0
    private var keptMemberCount: UInt16 = 0
    var memberCount: UInt16 { keptMemberCount }
    /// The index on the page of the member whose turn is next.
    var nextMemberIndex: UInt16 = 0
    /// The number of members whose push or start is under way, or whose refusal is being recorded. Parked members are
    /// not counted. Raised in `Audiences+Pushes` and `Audiences+Starts`, lowered there and in `Audiences+Responses` and
    /// `Audiences+RefusedMembers`.
    var underWayMemberCount: UInt16 = 0

    init(round: RoundIndex, appIndex: UInt16, startPosition: UInt64, phase: Phase, expectedBytes: Int) {
        self.round = round
        self.appIndex = appIndex
        self.startPosition = startPosition
        self.phase = phase
        occupiedBytes = expectedBytes
        lowerBound = UInt32(truncatingIfNeeded: startPosition)
    }

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a page cannot enter this phase from the one it is in")
        phase = next
    }

    /// The first position of the page's segment. Like the round's positions, it is counted over all laps
    /// (``RoundProgress``).
    var segmentStartPosition: UInt64 { startPosition & ~(MemberLocation.positionsPerSegment - 1) }

    mutating func load(_ page: UnsafeRawBufferPointer, members: UnsafeBufferPointer<MemberReference>) {
        referencesByteOffset = (page.count + 7) & ~7
        loadedMemberCount = UInt16(members.count)
        keptMemberCount = loadedMemberCount
        let bytesPerMember = Self.referenceBytes + Self.rangeVersionBytes + Self.progressBytes
        pageAndArrays = HeapBytes(count: referencesByteOffset + members.count * bytesPerMember)
        pageAndArrays.mutableBuffer.copyMemory(from: page)
        guard let base = pageAndArrays.mutableBuffer.baseAddress, !members.isEmpty else { return }
        (base + referencesByteOffset)
            .copyMemory(
                from: UnsafeRawPointer(members.baseAddress.unsafelyUnwrapped),
                byteCount: members.count * Self.referenceBytes
            )
        progressAddress.initializeMemory(as: MemberProgress.self, repeating: .unsent, count: members.count)
        pageByteCount = page.count
    }

    /// Removes the members that have not had their turn. The page then ends at `position` at the latest, and the round
    /// need not request the page behind it.
    mutating func truncate(at position: UInt64) {
        keptMemberCount = nextMemberIndex
        endPosition = min(endPosition, position)
        hasUnrequestedNextPage = false
    }

    private var referencesAddress: UnsafeMutableRawPointer {
        pageAndArrays.mutableBuffer.baseAddress.unsafelyUnwrapped + referencesByteOffset
    }
    private var rangeVersionsAddress: UnsafeMutableRawPointer {
        referencesAddress + Int(loadedMemberCount) * Self.referenceBytes
    }
    private var progressAddress: UnsafeMutableRawPointer {
        rangeVersionsAddress + Int(loadedMemberCount) * Self.rangeVersionBytes
    }

    func reference(_ memberIndex: Int) -> MemberReference {
        referencesAddress.load(fromByteOffset: memberIndex &* Self.referenceBytes, as: MemberReference.self)
    }

    func position(_ memberIndex: Int) -> UInt64 { segmentStartPosition &+ UInt64(reference(memberIndex).position) }

    func rangeVersion(_ memberIndex: Int) -> RangeVersionIndex {
        rangeVersionsAddress.load(fromByteOffset: memberIndex &* Self.rangeVersionBytes, as: RangeVersionIndex.self)
    }

    func setRangeVersion(_ memberIndex: Int, _ rangeVersion: RangeVersionIndex) {
        rangeVersionsAddress.storeBytes(
            of: rangeVersion,
            toByteOffset: memberIndex &* Self.rangeVersionBytes,
            as: RangeVersionIndex.self
        )
    }

    func progress(_ memberIndex: Int) -> MemberProgress {
        progressAddress.load(fromByteOffset: memberIndex &* Self.progressBytes, as: MemberProgress.self)
    }

    func setProgress(_ memberIndex: Int, _ progress: MemberProgress) {
        progressAddress.storeBytes(
            of: progress,
            toByteOffset: memberIndex &* Self.progressBytes,
            as: MemberProgress.self
        )
    }

    /// Returns a member's entry on the page. Nil if the entry is not valid. This does not occur, because
    /// ``MemberPage/members(into:nowMilliseconds:)`` has checked all entries before the page was loaded.
    func member(_ memberIndex: Int) -> PageMember? {
        MemberPage(UnsafeRawBufferPointer(start: pageAndArrays.mutableBuffer.baseAddress, count: pageByteCount))?[
            reference(memberIndex)
        ]
    }

    func freeBytes() { pageAndArrays.free() }
}

/// How far a member of a page has come, in one byte. Swift gives the cases without an outcome those values of the byte
/// that ``MemberOutcome`` does not use.
enum MemberProgress: BitwiseCopyable {
    case unsent
    /// A push to the member is in flight in production, or the member's start is being produced.
    case inFlight
    /// A push to the member is in flight in the sandbox. When the response comes, the case says which environment it is
    /// for. The member's entry says it too, but the entry is no longer in the processor's cache by then.
    case inFlightToSandbox
    /// The member is parked. It is counted only when it has its outcome.
    case parked
    /// The member's push was refused. The result and, for a dead token, the invalidation are being recorded.
    case refused
    /// The command does not concern this member. A start does not concern an activity, and an update or end does not
    /// concern a device.
    case notAddressed
    case done(MemberOutcome)
}
