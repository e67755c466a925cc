/// One question to the store about one audience of an app.
///
/// The core of the rounds makes these values, the store and its model consume them. `Bytes` as in ``StoreCall``. Every operation is atomic,
/// and repeating one whose reply was lost is safe.
public struct AudienceCall<Bytes> {
    /// Comes back with the reply.
    public var tag: UInt64
    /// Bundle id.
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
        // On the audience's record.

        /// Decides what happens to a command of the audience: `send` with an ``AudienceGrant``, `wait`, `superseded`, `duplicate`,
        /// `unchanged`, `ended`. A version that was admitted and is not ``settle``d gets its grant again.
        case admit(AudienceAdmission<Bytes>)
        /// The version's fan-out records are in Kafka: from now on it is a `duplicate`. Reply: `settled`.
        case settle(version: Version)
        /// The newest admitted state, for a member that joins: `send` with its version, timestamp and body, or `unknown`: none was
        /// admitted, or it has expired.
        case newest

        // On a range of the audience.

        /// Claims the range and tells where its round stands: `progress`, with the text that the last checkpoint wrote, empty for none, and
        /// the newest admitted version. Whoever claimed the range before can write no checkpoint any more.
        case claim(SegmentRange, claim: UInt64)
        /// Keeps where the range's round stands: `settled`, or `foreign` if another has claimed the range since; both with the newest
        /// admitted version. Where a failover has lost the claim with the store's last writes, the former one's stands again, and the reply
        /// is `foreign` as well: who still has the range claims it once more.
        /// - `text`: the core's own, at most ``AudienceLimits/progressBytes``.
        case checkpoint(SegmentRange, claim: UInt64, text: Bytes)
        /// Adds the range's counts to those of the version: `finished`. With the totals of all ranges once the last one is there.
        case finish(SegmentRange, version: Version, MemberCounts, RoundTimes)

        /// The same of a broadcast: adds what became of it. Until all broadcasts and all ranges of the version are there, no totals are given.
        case finishBroadcast(BroadcastPart, version: Version, MemberCounts.Outcome, RoundTimes)

        // On a segment.

        /// The lower bounds of the segment's pages: `pages`, four bytes each, little-endian, ascending, the first 0; none for a segment
        /// without members.
        case directory(segment: UInt8)
        /// One page, by its lower bound: `page` with its bytes (``MemberPage``); empty if there is none with this bound.
        case page(segment: UInt8, lowerBound: UInt32)
        /// Adds an entry to the segment: `joined`. A member's entry with the latest time counts, of equal ones the last.
        case append(MemberEntry<Bytes>)
    }
}

/// A command of an audience that asks to be admitted.
public struct AudienceAdmission<Bytes> {
    public var version: Version
    /// Of what members would show: an update that equals the newest is `unchanged`. Not used for an end.
    public var digest: UInt64
    public var pace: Policy.Pace
    public var isEnd: Bool
    /// A start to an audience of devices, which opens an ended audience.
    public var isStart: Bool
    /// Asks for priority 10, which each of the two budgets may refuse.
    public var asksForHighPriority: Bool
    /// May draw on the reserved part of the budgets.
    public var mayUseReserve: Bool
    /// How many ranges the caller would divide the audience into; the number of a round that is under way stays.
    public var rangeCount: UInt16
    /// What a member that joins is sent: the body of the push without its alert, and until when, UNIX seconds.
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

/// Names a broadcast among the parts of a version that are finished one by one.
public struct BroadcastPart: Sendable, Hashable, BitwiseCopyable {
    public var environment: DeviceEnvironment
    /// The version's ranges and broadcasts.
    public var rangeCount: UInt16
    public var broadcastCount: UInt8

    public init(environment: DeviceEnvironment, rangeCount: UInt16, broadcastCount: UInt8) {
        self.environment = environment
        self.rangeCount = rangeCount
        self.broadcastCount = broadcastCount
    }
}

/// How an admitted command of an audience is to be sent.
public struct AudienceGrant: Sendable, Equatable, BitwiseCopyable {
    /// `aps.timestamp` to be sent, UNIX seconds: the command's, raised above the audience's last where needed.
    public var timestamp: Int64
    /// 5 or 10, for members without and with frequent updates.
    public var priority: UInt8
    public var frequentPriority: UInt8
    /// 10 was asked for, and the budget had none left.
    public var isDemoted: Bool
    public var rangeCount: UInt16
    /// Broadcasts of the command, one for each channel of the audience.
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

/// What became of the members that a version's round has come to.
public struct MemberCounts: Sendable, Equatable, BitwiseCopyable {
    public enum Outcome: UInt8, Sendable, CaseIterable, BitwiseCopyable {
        /// APNs answered 200.
        case delivered
        /// Reached by a newer version instead.
        case superseded
        /// APNs refused the push for a reason of its own.
        case failed
        /// The token is dead; the member has left.
        case unregistered
        /// The version's time was over before the member's turn.
        case expired
        /// A start was handed on as a command of its own.
        case started

        /// As results name it.
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

    public var counts: InlineArray<6, UInt32> = .init(repeating: 0)

    public init() {}

    public subscript(outcome: Outcome) -> UInt32 {
        get { counts[Int(outcome.rawValue)] }
        set { counts[Int(outcome.rawValue)] = newValue }
    }

    public var total: UInt64 {
        Outcome.allCases.reduce(0) { $0 + UInt64(self[$1]) }
    }

    /// Adds the members of another range. A count stops at its largest number.
    public mutating func add(_ other: MemberCounts) {
        for outcome in Outcome.allCases {
            self[outcome] = UInt32(clamping: UInt64(self[outcome]) + UInt64(other[outcome]))
        }
    }

    public static func == (left: MemberCounts, right: MemberCounts) -> Bool {
        Outcome.allCases.allSatisfy { left[$0] == right[$0] }
    }
}

/// When a round got its first and its last answer, UNIX milliseconds; -1 without one.
public struct RoundTimes: Sendable, Equatable, BitwiseCopyable {
    public var firstAnswerMilliseconds: Int64
    public var lastAnswerMilliseconds: Int64

    public init(firstAnswerMilliseconds: Int64 = -1, lastAnswerMilliseconds: Int64 = -1) {
        self.firstAnswerMilliseconds = firstAnswerMilliseconds
        self.lastAnswerMilliseconds = lastAnswerMilliseconds
    }

    /// Adds those of another range: the earliest and the latest.
    public mutating func add(_ other: RoundTimes) {
        let first = other.firstAnswerMilliseconds
        if first >= 0, firstAnswerMilliseconds < 0 || first < firstAnswerMilliseconds {
            firstAnswerMilliseconds = first
        }
        lastAnswerMilliseconds = max(lastAnswerMilliseconds, other.lastAnswerMilliseconds)
    }
}

/// A member that joins a segment, or leaves it.
public struct MemberEntry<Bytes> {
    public var place: MemberPlace
    public var isLeaving: Bool
    public var kind: StoreSubjectKind
    public var environment: DeviceEnvironment
    /// Of an activity.
    public var frequentUpdates: Bool
    /// Of a device: its activities may begin on a broadcast channel.
    public var takesChannels: Bool
    /// When its token was registered, UNIX milliseconds. Of a member that leaves: what was registered later stays.
    public var atMilliseconds: Int64
    /// The activity's or the device's id.
    public var identifier: Bytes
    /// The token in hexadecimal digits, of either case; empty of a member that leaves.
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

/// The bounds of what is kept of an audience.
public enum AudienceLimits {
    /// Of what ``AudienceCall/Operation/checkpoint(_:text:)`` keeps.
    public static let progressBytes = 4_096
    /// The longest page that is read, in bytes.
    public static let pageBytes = 64 * 1_024
}
