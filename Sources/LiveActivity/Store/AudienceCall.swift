/// A call to the store about one audience of an app.
///
/// The core of audiences makes these values; the store and its model consume them. `Bytes` is the same as in
/// ``StoreCall``. Every operation is atomic, and can be repeated if its reply was lost.
public struct AudienceCall<Bytes> {
    /// The caller's number for the call. The reply has the same number.
    public var tag: UInt64
    /// The app's bundle id.
    public var app: Bytes
    public var audience: AudienceDigest
    public var operation: Operation

    public init(tag: UInt64, app: Bytes, audience: AudienceDigest, operation: Operation) {
        self.tag = tag
        self.app = app
        self.audience = audience
        self.operation = operation
    }

    public enum Operation {
        // Operations on the audience's record.

        /// Decides about a command to the audience. Reply: `send` with an ``AudienceGrant``, `wait`,
        /// `superseded`, `duplicate`, `unchanged`, `ended`. A version that was admitted and not ``settle``d
        /// gets its grant again.
        case admit(AudienceAdmission<Bytes>)
        /// Records that the version's fan-out records are in Kafka. From now on the version is a `duplicate`.
        /// Reply: `settled`.
        case settle(version: Version)
        /// Reads the newest admitted state, for a member that joins. Reply: `send` with the state's version,
        /// timestamp and body; or `unknown` if no state was admitted or the newest has expired.
        case newest

        // Operations on a range of the audience.

        /// Claims the range and returns its round's progress: `progress`, with the text of the last
        /// checkpoint (empty for none) and the newest admitted version. Afterwards the previous owner can
        /// write no checkpoint.
        case claim(SegmentRange, claim: UInt64)
        /// Stores the range's progress. Reply: `settled`, or `foreign` if the range has another claim; both
        /// with the newest admitted version. After a failover that lost the last writes, Redis may have the
        /// previous owner's claim again. So an owner that gets `foreign` and still has the range claims the
        /// range again.
        /// - `text`: in the format of the core of audiences, at most ``AudienceLimits/progressBytes``.
        case checkpoint(SegmentRange, claim: UInt64, text: Bytes)
        /// Adds the range's counts to the version's totals. Reply: `finished`, for the last range with the
        /// totals.
        case finish(SegmentRange, version: Version, MemberCounts, RoundTimes)

        /// Adds a broadcast's outcome to the version's totals. Reply: `finished`, with the totals if all
        /// ranges and broadcasts of the version are finished.
        case finishBroadcast(BroadcastPart, version: Version, MemberOutcome, RoundTimes)

        // Operations on a segment.

        /// Reads the lower bounds of the segment's pages. Reply: `pages`, with four bytes for each page,
        /// little-endian, ascending, the first 0; empty for a segment without members.
        case directory(segment: UInt8)
        /// Reads the page with this lower bound. Reply: `page` with the bytes of a ``MemberPage``; empty if
        /// there is no such page.
        case page(segment: UInt8, lowerBound: UInt32)
        /// Adds an entry to the segment. Reply: `joined`. For each member, the entry with the latest time
        /// counts (``MemberPage``). So a repetition, or another order, changes nothing.
        case append(MemberEntry<Bytes>)
    }
}

/// The parts of a command to an audience that decide about its admission.
public struct AudienceAdmission<Bytes> {
    public var version: Version
    /// The digest of what members would show. An update that equals the newest state is `unchanged`. Not used
    /// for an end.
    public var digest: UInt64
    public var pace: Policy.Pace
    public var isEnd: Bool
    /// A start to an audience of devices, which also opens an ended audience.
    public var isStart: Bool
    /// Whether the command asks for priority 10. The two budgets, without and with frequent updates, decide
    /// separately.
    public var asksForHighPriority: Bool
    /// Whether the command may draw on the reserved part of the budgets.
    public var mayUseReserve: Bool
    /// The number of ranges into which the caller would divide the audience. A round that is under way keeps
    /// its own number.
    public var rangeCount: UInt16
    /// The push to a member that joins later: its body without the alert, and its expiration, UNIX seconds.
    public var body: Bytes
    public var expiration: Int64

    public init(
        version: Version,
        digest: UInt64,
        pace: Policy.Pace,
        isEnd: Bool,
        isStart: Bool,
        asksForHighPriority: Bool,
        mayUseReserve: Bool,
        rangeCount: UInt16,
        body: Bytes,
        expiration: Int64
    ) {
        self.version = version
        self.digest = digest
        self.pace = pace
        self.isEnd = isEnd
        self.isStart = isStart
        self.asksForHighPriority = asksForHighPriority
        self.mayUseReserve = mayUseReserve
        self.rangeCount = rangeCount
        self.body = body
        self.expiration = expiration
    }
}

/// Identifies one broadcast of a version. The version is finished when all its ranges and broadcasts are
/// finished.
public struct BroadcastPart: Sendable, Hashable, BitwiseCopyable {
    public var environment: DeviceEnvironment
    /// How many ranges and how many broadcasts the version has.
    public var rangeCount: UInt16
    public var broadcastCount: UInt8

    public init(environment: DeviceEnvironment, rangeCount: UInt16, broadcastCount: UInt8) {
        self.environment = environment
        self.rangeCount = rangeCount
        self.broadcastCount = broadcastCount
    }
}

/// How an admitted command to an audience is sent.
public struct AudienceGrant: Sendable, Equatable, BitwiseCopyable {
    /// The `aps.timestamp` to send, UNIX seconds: the command's own, or one above the audience's last if its
    /// own is not higher.
    public var timestamp: Int64
    /// 5 or 10, for members without and with frequent updates.
    public var priority: UInt8
    public var frequentPriority: UInt8
    /// Whether the command asked for 10 and was lowered to 5, because a budget had no push left.
    public var isDemoted: Bool
    public var rangeCount: UInt16
    /// The number of the command's broadcasts, one for each channel of the audience.
    public var broadcastCount: UInt8

    public init(
        timestamp: Int64,
        priority: UInt8,
        frequentPriority: UInt8,
        isDemoted: Bool,
        rangeCount: UInt16,
        broadcastCount: UInt8 = 0
    ) {
        self.timestamp = timestamp
        self.priority = priority
        self.frequentPriority = frequentPriority
        self.isDemoted = isDemoted
        self.rangeCount = rangeCount
        self.broadcastCount = broadcastCount
    }
}

/// What became of one member of an audience under one version.
public enum MemberOutcome: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// APNs answered 200.
    case delivered
    /// A newer version reached the member instead.
    case superseded
    /// APNs refused this push, and another attempt would not help.
    case failed
    /// The token is dead, and the member has left the audience.
    case unregistered
    /// The version expired before it was sent to the member.
    case expired
    /// The start on this device was written as a command of its own.
    case started

    /// The name in results.
    public var name: StaticString {
        switch self {
        case .delivered: "delivered"
        case .superseded: "superseded"
        case .failed: "failed"
        case .unregistered: "unregistered"
        case .expired: "expired"
        case .started: "started"
        }
    }
}

/// The number of members for each outcome, among the members that a version's round has reached.
public struct MemberCounts: Sendable, Equatable, BitwiseCopyable {
    public var counts: InlineArray<6, UInt32> = .init(repeating: 0)

    public init() {}

    public subscript(outcome: MemberOutcome) -> UInt32 {
        get { counts[Int(outcome.rawValue)] }
        set { counts[Int(outcome.rawValue)] = newValue }
    }

    public var total: UInt64 {
        MemberOutcome.allCases.reduce(0) { $0 + UInt64(self[$1]) }
    }

    /// Adds the members of another range. A count stops at its maximum.
    public mutating func add(_ other: MemberCounts) {
        for outcome in MemberOutcome.allCases {
            self[outcome] = UInt32(clamping: UInt64(self[outcome]) + UInt64(other[outcome]))
        }
    }

    public static func == (left: MemberCounts, right: MemberCounts) -> Bool {
        MemberOutcome.allCases.allSatisfy { left[$0] == right[$0] }
    }
}

/// When a round got its first and its last answer, UNIX milliseconds; -1 without an answer.
public struct RoundTimes: Sendable, Equatable, BitwiseCopyable {
    public var firstResponseMilliseconds: Int64
    public var lastResponseMilliseconds: Int64

    public init(firstResponseMilliseconds: Int64 = -1, lastResponseMilliseconds: Int64 = -1) {
        self.firstResponseMilliseconds = firstResponseMilliseconds
        self.lastResponseMilliseconds = lastResponseMilliseconds
    }

    /// Adds the times of another range: the earliest and the latest.
    public mutating func add(_ other: RoundTimes) {
        let first = other.firstResponseMilliseconds
        if first >= 0, firstResponseMilliseconds < 0 || first < firstResponseMilliseconds {
            firstResponseMilliseconds = first
        }
        lastResponseMilliseconds = max(lastResponseMilliseconds, other.lastResponseMilliseconds)
    }
}

/// A member that joins a segment or leaves it.
public struct MemberEntry<Bytes> {
    public var place: MemberPlace
    public var isLeaving: Bool
    public var kind: StoreSubjectKind
    public var environment: DeviceEnvironment
    /// For an activity: whether frequent updates are allowed.
    public var frequentUpdates: Bool
    /// For a device: its activities may begin on a broadcast channel.
    public var takesChannels: Bool
    /// When the member's token was registered, UNIX milliseconds. If the member registered later, an entry
    /// that says that the member leaves has no effect.
    public var atMilliseconds: Int64
    /// The activity's or the device's id.
    public var identifier: Bytes
    /// The token in hexadecimal digits, in upper or lower case; empty for a member that leaves.
    public var token: Bytes

    public init(
        place: MemberPlace,
        isLeaving: Bool,
        kind: StoreSubjectKind,
        environment: DeviceEnvironment,
        frequentUpdates: Bool,
        takesChannels: Bool = false,
        atMilliseconds: Int64,
        identifier: Bytes,
        token: Bytes
    ) {
        self.place = place
        self.isLeaving = isLeaving
        self.kind = kind
        self.environment = environment
        self.frequentUpdates = frequentUpdates
        self.takesChannels = takesChannels
        self.atMilliseconds = atMilliseconds
        self.identifier = identifier
        self.token = token
    }
}

/// The bounds of what is stored for an audience.
public enum AudienceLimits {
    /// The maximum length of the text of ``AudienceCall/Operation/checkpoint(_:text:)``, in bytes.
    public static let progressBytes = 4_096
    /// The longest page that is read, in bytes.
    public static let pageBytes = 64 * 1_024
}
