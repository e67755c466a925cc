import Delivery
import LiveActivity

/// Names a page by the index of its slot in `Audiences.pages`.
typealias PageIndex = SlabIndex<PageSlot>

/// A page of a round, from its reading to the last outcome of its members.
struct PageSlot: BitwiseCopyable {
    /// The maximum number of bytes that the core reserves for a page before it is read. A page that was rearranged in
    /// time has about 32 KiB at most, and the data about its members takes a few KiB. A longer page occupies more.
    static let expectedBytesMax = 48 << 10
    enum Phase: UInt8, BitwiseCopyable {
        case requestingDirectory
        case requestingPage
        case ready
        /// The round no longer needs the page. If the page was being read, it is freed when the store replies. If it
        /// was ready, it is freed when no push, start or recording of a refusal is under way for any of its members.
        case discarded
    }

    var round: RoundIndex
    let appIndex: UInt16
    /// The next page of the round; `.null`: this is the last one.
    var nextPage = PageIndex.null
    var phase: Phase
    /// Whether the page is read only for the members at ``startPosition``: the last owner of the partition had parked
    /// them, and the round parks them again.
    var needsOnlyParkedMembers = false
    /// The parked member for which the page is read, to learn whether the member has left the audience or has another
    /// token. `.null`: the page is read for its round.
    var parkedMember = ParkedMemberIndex.null
    /// The first position that the round needs of the page.
    var startPosition: UInt64
    /// One above the last position of the page. Valid when the page is ready.
    var endPosition: UInt64 = 0
    /// The lower bound (first position) by which the page is requested from Redis.
    var lowerBound: UInt32
    /// The lower bound that brought no readable page when it was last requested: the page did not exist or was damaged.
    /// It is not requested again. Nil: the last request brought a readable page, or there was none.
    var unusablePageLowerBound: UInt32?
    var directoryReadCount: UInt8 = 0
    /// Whether the segment continues after this page and the next page was not requested yet.
    var hasUnrequestedNextPage = false

    /// The bytes that the page occupies, or is expected to occupy until it has been read.
    var occupiedBytes: Int

    /// When the page was read (monotonic milliseconds); `.max`: not yet.
    var readAtMilliseconds: Int64 = .max

    /// The page's bytes, then for all its members: their references, the versions that they were sent, and
    /// their progress.
    private(set) var block = HeapBytes.none
    private(set) var referencesOffset = 0
    /// The number of members on the page, and how many of them are left after ``truncate(at:)``. The places in
    /// ``block`` depend on the first number, so it does not change.
    private var loadedMemberCount: UInt16 = 0
    private var keptMemberCount: UInt16 = 0
    var memberCount: UInt16 { keptMemberCount }
    /// The index of the member whose turn is next.
    var nextMemberIndex: UInt16 = 0
    /// The number of members whose push or start is under way, or whose refusal is being recorded. Parked members
    /// are not counted.
    var unfinishedMemberCount: UInt16 = 0

    init(round: RoundIndex, appIndex: UInt16, startPosition: UInt64, phase: Phase, expectedBytes: Int) {
        self.round = round
        self.appIndex = appIndex
        self.startPosition = startPosition
        self.phase = phase
        occupiedBytes = expectedBytes
        lowerBound = UInt32(truncatingIfNeeded: startPosition)
    }

    /// The first position of the page's segment, counted like the positions of the round.
    var segmentStartPosition: UInt64 { startPosition & ~(MemberLocation.positionsPerSegment - 1) }

    mutating func load(_ page: UnsafeRawBufferPointer, members: UnsafeBufferPointer<MemberReference>) {
        referencesOffset = (page.count + 7) & ~7
        loadedMemberCount = UInt16(members.count)
        keptMemberCount = loadedMemberCount
        let bytesPerMember = MemoryLayout<MemberReference>.size + MemoryLayout<RangeVersionIndex>.size + 1
        block = HeapBytes(count: referencesOffset + members.count * bytesPerMember)
        block.mutableBytes.copyMemory(from: page)
        guard let base = block.mutableBytes.baseAddress, !members.isEmpty else { return }
        (base + referencesOffset)
            .copyMemory(from: UnsafeRawPointer(members.baseAddress.unsafelyUnwrapped), byteCount: members.count * 8)
        progressBase.initializeMemory(as: UInt8.self, repeating: MemberProgress.unsent.rawValue, count: members.count)
        pageByteCount = page.count
    }

    /// Removes the members that have not had their turn.
    mutating func truncate(at position: UInt64) {
        keptMemberCount = nextMemberIndex
        endPosition = min(endPosition, position)
        hasUnrequestedNextPage = false
    }

    private var pageByteCount = 0

    private var referencesBase: UnsafeMutableRawPointer {
        block.mutableBytes.baseAddress.unsafelyUnwrapped + referencesOffset
    }
    private var rangeVersionsBase: UnsafeMutableRawPointer { referencesBase + Int(loadedMemberCount) * 8 }
    private var progressBase: UnsafeMutableRawPointer { rangeVersionsBase + Int(loadedMemberCount) * 4 }

    func reference(_ member: Int) -> MemberReference {
        referencesBase.load(fromByteOffset: member &* 8, as: MemberReference.self)
    }

    func position(_ member: Int) -> UInt64 { segmentStartPosition &+ UInt64(reference(member).position) }

    func rangeVersion(_ member: Int) -> RangeVersionIndex {
        rangeVersionsBase.load(fromByteOffset: member &* 4, as: RangeVersionIndex.self)
    }

    func setRangeVersion(_ member: Int, _ rangeVersion: RangeVersionIndex) {
        rangeVersionsBase.storeBytes(of: rangeVersion, toByteOffset: member &* 4, as: RangeVersionIndex.self)
    }

    func progress(_ member: Int) -> UInt8 { progressBase.load(fromByteOffset: member, as: UInt8.self) }

    func setProgress(_ member: Int, _ progress: UInt8) {
        progressBase.storeBytes(of: progress, toByteOffset: member, as: UInt8.self)
    }

    /// Returns a member's content; nil if the page's bytes have no valid entry of the member. This does not occur:
    /// ``MemberPage/members(into:)`` has found the entry valid before the page was loaded.
    func member(_ member: Int) -> PageMember? {
        MemberPage(UnsafeRawBufferPointer(start: block.mutableBytes.baseAddress, count: pageByteCount))?[
            reference(member)
        ]
    }

    func freeBytes() { block.free() }
}

/// The progress of a member of a page, in one byte. Without an outcome: the raw value of a case below `done`. With an
/// outcome: the raw value of `done` plus that of the ``MemberOutcome``.
enum MemberProgress: UInt8 {
    case unsent
    case inFlight
    /// A push to the member is in flight in the sandbox. With this case, the core need not read the member's entry when
    /// the response comes: by then, the entry is no longer in the processor's cache.
    case inFlightToSandbox
    /// The member is parked. The counts do not include it before it has its outcome.
    case parked
    /// The member's push was refused. The result and, for a dead token, the invalidation are being recorded.
    case refused
    /// The entry belongs to an activity although the command is for devices, or to a device although it is for
    /// activities. The command does not concern this member.
    case notAddressed
    case done = 8

    static func done(_ outcome: MemberOutcome) -> UInt8 { done.rawValue + outcome.rawValue }

    static func outcome(_ progress: UInt8) -> MemberOutcome? {
        progress >= done.rawValue ? MemberOutcome(rawValue: progress - done.rawValue) : nil
    }
}
