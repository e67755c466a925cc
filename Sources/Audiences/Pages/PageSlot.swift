import LiveActivity

/// A page of a round between its reading and the last outcome of its members.
struct PageSlot: BitwiseCopyable {
    enum Phase: UInt8, BitwiseCopyable {
        case askingDirectory
        case askingPage
        case ready
        /// Its round wants nothing of it any more; freed by the reply.
        case discarded
    }

    var round: UInt32
    let application: UInt16
    /// The next page of the round.
    var next: UInt32 = .max
    var phase: Phase
    /// Only the members at the first position are looked for, which the last owner had parked.
    var restores = false
    /// Only this parked member is looked for, which may have left.
    var parked: UInt32 = .max
    /// What is wanted: from this position on.
    var start: UInt64
    /// One above the page's last position; of a page that is ready.
    var end: UInt64 = 0
    /// The bound by which it is asked.
    var lowerBound: UInt32
    /// A bound that the directory names and by which there is no page.
    var missingBound: UInt32?
    var attempts: UInt8 = 0
    /// Behind it the segment goes on, and nothing has asked for that yet.
    var needsContinuation = false

    /// When it was read, monotonic.
    var readMilliseconds: Int64 = .max

    /// The page's bytes; then of each member its reference, which version it was sent under, and its state.
    private(set) var block = HeapBytes.none
    private(set) var byteCount = 0
    /// Members of the page, and of them those that are to be sent.
    private var capacity: UInt16 = 0
    private var lastMember: UInt16 = 0
    var memberCount: UInt16 { lastMember }
    /// The next member to be handed out.
    var sendIndex: UInt16 = 0
    /// Members that were handed out and have no outcome; parked ones are not counted.
    var unfinished: UInt16 = 0

    init(round: UInt32, application: UInt16, start: UInt64, phase: Phase) {
        self.round = round
        self.application = application
        self.start = start
        self.phase = phase
        lowerBound = UInt32(truncatingIfNeeded: start)
    }

    /// The position of its segment's first ordinal.
    var segmentBase: UInt64 { start & ~(MemberPlace.positionsPerSegment - 1) }

    mutating func load(_ page: UnsafeRawBufferPointer, members: UnsafeBufferPointer<MemberReference>) {
        byteCount = (page.count + 7) & ~7
        capacity = UInt16(members.count)
        lastMember = capacity
        let perMember = MemoryLayout<MemberReference>.size + MemoryLayout<UInt32>.size + 1
        block = HeapBytes(count: byteCount + members.count * perMember)
        block.room.copyMemory(from: page)
        guard let base = block.room.baseAddress, !members.isEmpty else { return }
        (base + byteCount)
            .copyMemory(from: UnsafeRawPointer(members.baseAddress.unsafelyUnwrapped), byteCount: members.count * 8)
        (statesBase).initializeMemory(as: UInt8.self, repeating: MemberState.unsent.rawValue, count: members.count)
        pageBytes = page.count
    }

    /// Nothing behind what was handed out belongs to it any more.
    mutating func truncate(at position: UInt64) {
        lastMember = sendIndex
        end = min(end, position)
        needsContinuation = false
    }

    private var pageBytes = 0

    private var referencesBase: UnsafeMutableRawPointer { block.room.baseAddress.unsafelyUnwrapped + byteCount }
    private var versionsBase: UnsafeMutableRawPointer { referencesBase + Int(capacity) * 8 }
    private var statesBase: UnsafeMutableRawPointer { versionsBase + Int(capacity) * 4 }

    func reference(_ member: Int) -> MemberReference {
        referencesBase.load(fromByteOffset: member &* 8, as: MemberReference.self)
    }

    func position(_ member: Int) -> UInt64 { segmentBase &+ UInt64(reference(member).position) }

    func version(_ member: Int) -> UInt32 { versionsBase.load(fromByteOffset: member &* 4, as: UInt32.self) }

    func setVersion(_ member: Int, _ version: UInt32) {
        versionsBase.storeBytes(of: version, toByteOffset: member &* 4, as: UInt32.self)
    }

    func state(_ member: Int) -> UInt8 { statesBase.load(fromByteOffset: member, as: UInt8.self) }

    func setState(_ member: Int, _ state: UInt8) {
        statesBase.storeBytes(of: state, toByteOffset: member, as: UInt8.self)
    }

    /// Nil if the bytes do not read as a page, which they did when it was loaded.
    func member(_ member: Int) -> PageMember? {
        MemberPage(UnsafeRawBufferPointer(start: block.room.baseAddress, count: pageBytes))?[reference(member)]
    }

    func freeBytes() { block.free() }
}

/// What a member of a page has come to. Above `done` stands the outcome.
enum MemberState: UInt8 {
    case unsent
    case inFlight
    /// Likewise, to the sandbox: so an answer does not look at the member's entry, which has left the processor's cache by then.
    case inFlightToSandbox
    /// Counted when it is not parked any more.
    case parked
    /// Its result and its invalidation are being recorded.
    case noticed
    /// Of another kind: not a member for this command.
    case passedOver
    case done = 8

    static func done(_ outcome: MemberCounts.Outcome) -> UInt8 { done.rawValue + outcome.rawValue }

    static func outcome(_ state: UInt8) -> MemberCounts.Outcome? {
        state >= done.rawValue ? MemberCounts.Outcome(rawValue: state - done.rawValue) : nil
    }
}
