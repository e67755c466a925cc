/// A call to the store about one audience of an app, or about one channel that a producer manages.
///
/// Every operation is atomic, and can be repeated if its reply was lost. `Bytes` is explained at ``StoreCall``.
public struct AudienceCall<Bytes> {
    /// The caller's number for the call, which the caller gets back with the reply.
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
        // Operations on the hash that Redis keeps for the audience.

        /// Decides about a command to the audience. Reply: `send` with an ``AudienceGrant``, `wait`, `superseded`,
        /// `duplicate`, `unchanged` or `ended`.
        ///
        /// A repeated call for the newest admitted version gets the same grant until this version is settled. Only the
        /// number of broadcasts may differ, because the audience may have got or lost a channel.
        case admit(AudienceAdmission<Bytes>)
        /// Records that the version's fan-out records are in Kafka. Reply: `settled`. If the command is read from Kafka
        /// again, its admission then gets the reply `duplicate`, so that it is not fanned out twice.
        case settle(version: Version)
        /// Reads the newest admitted state, for a member that joins. Reply: `send` with the state's version, timestamp
        /// and body. The reply is `unknown` in either of these cases:
        /// - No command was admitted, or the newest admitted command is a start.
        /// - The newest state has expired, or was admitted more than 12 hours ago.
        case readNewestState

        // Operations on a range of the audience, or on a broadcast.

        /// Claims the range for the caller. Reply: `claimed`, with the text of the last checkpoint (empty if there is
        /// none) and the newest admitted version. From now on, Redis refuses checkpoints of the previous owner, which
        /// may still send for a while. (R29)
        case claim(SegmentRange, claim: UInt64)
        /// Stores the range's progress. All replies have the newest admitted version:
        /// - `settled`: the progress was stored.
        /// - `claimedByAnother`: not stored, because another claim is valid. The lane claims the range again if it
        ///   still has the range's partition of the fan-out topic.
        /// - `claimLost`: not stored, because the range has no claim.
        ///
        /// - Parameter text: in the format of the core `Audiences`, at most ``AudienceLimits/checkpointBytesMax``.
        case checkpoint(SegmentRange, claim: UInt64, text: Bytes)
        /// Adds the range's counts to the version's totals, unless Redis has no room for the version (K27). Reply:
        /// `finished`. If all ranges and broadcasts of the version are now finished, the reply has the totals.
        case finishRange(SegmentRange, version: Version, MemberOutcomeCounts, ResponseTimes)

        /// Adds a broadcast's outcome to the version's totals, unless Redis has no room for the version (K27). Reply:
        /// `finished`. If all ranges and broadcasts of the version are now finished, the reply has the totals.
        case finishBroadcast(FinishedBroadcast, version: Version, MemberOutcome, ResponseTimes)

        // Operations on a segment.

        /// Reads the segment's list of pages. Reply: `directory`, with the lower bound of each page: the first member
        /// position that may be in the page. The bounds ascend from 0 and have four bytes each, little-endian. There
        /// are none if the segment has no pages.
        case readDirectory(segment: UInt8)
        /// Reads the page with this lower bound. Reply: `page` with the bytes of a ``MemberPage``; empty if there is no
        /// such page.
        case readPage(segment: UInt8, lowerBound: UInt32)
        /// Adds an entry to the segment. Reply: `appended`. Of a member's entries, the one with the latest time is
        /// valid; if several have this time, the last of them (``MemberPage``). So a call can be repeated, and entries
        /// with different times may arrive in any order.
        case append(MemberEntry<Bytes>)
    }
}

/// What Redis needs to decide about a command to an audience.
public struct AudienceAdmission<Bytes> {
    public var version: Version
    /// The digest of what members would show. An update is `unchanged` if the newest state has the same digest and is
    /// settled. Not compared for an end or a start.
    public var digest: UInt64
    public var pace: Policy.Pace
    public var isEnd: Bool
    /// Whether the command is a start to an audience of devices. Only a start opens an audience that has ended.
    public var isStart: Bool
    /// Whether the command asks for priority 10. Redis may grant it to some members only: members whose users allow
    /// frequent updates have one budget, and all other members have another.
    public var requestsHighPriority: Bool
    /// Whether the command may draw on the reserved part of the budgets, because it has an alert or is an end.
    public var mayUseReserve: Bool
    /// The number of ranges into which the caller would divide the audience.
    ///
    /// If any of the last 64 commands was admitted in the last 12 hours and is not finished, the grant has the number
    /// of the newest such command instead (``AudienceGrant/rangeCount``). With two different numbers, ranges of the two
    /// commands would overlap, and two rounds would push to the same members.
    public var rangeCount: UInt16
    /// The body that a member gets if the member joins later, in the format of the core's `JoinerBody`. This body has
    /// no alert, because the alert would come late. Redis does not store the body of a start.
    public var body: Bytes
    /// Until when members that join get the body, UNIX seconds: the command's expiration. Without one: the time at
    /// which an update or end with this timestamp is too old (`AgeRules.stateExpirationSeconds`).
    public var expirationSeconds: Int64

    public init(
        version: Version,
        digest: UInt64,
        pace: Policy.Pace,
        isEnd: Bool,
        isStart: Bool,
        requestsHighPriority: Bool,
        mayUseReserve: Bool,
        rangeCount: UInt16,
        body: Bytes,
        expirationSeconds: Int64
    ) {
        self.version = version
        self.digest = digest
        self.pace = pace
        self.isEnd = isEnd
        self.isStart = isStart
        self.requestsHighPriority = requestsHighPriority
        self.mayUseReserve = mayUseReserve
        self.rangeCount = rangeCount
        self.body = body
        self.expirationSeconds = expirationSeconds
    }
}

/// A finished broadcast of a version. Redis also needs the numbers of the version's ranges and broadcasts, to notice
/// when the whole version is finished.
public struct FinishedBroadcast: Sendable, Hashable, BitwiseCopyable {
    public var environment: APNsEnvironment
    /// The number of all ranges of the version.
    public var rangeCount: UInt16
    /// The number of all broadcasts of the version.
    public var broadcastCount: UInt8

    public init(environment: APNsEnvironment, rangeCount: UInt16, broadcastCount: UInt8) {
        self.environment = environment
        self.rangeCount = rangeCount
        self.broadcastCount = broadcastCount
    }
}

/// How an admitted command to an audience is sent.
public struct AudienceGrant: Sendable, Equatable, BitwiseCopyable {
    /// The `aps.timestamp` to send, UNIX seconds: the command's own, if it is above the audience's last timestamp. If
    /// not, one second above the last timestamp: phones could ignore a state whose timestamp does not grow. (R11)
    public var timestamp: Int64
    /// The priority for members whose users do not allow frequent updates: 5 or 10.
    public var priority: UInt8
    /// The priority for members whose users allow frequent updates: 5 or 10.
    public var frequentUpdatesPriority: UInt8
    /// Whether the command asked for priority 10, but ``priority`` or ``frequentUpdatesPriority`` is 5: a budget was
    /// empty, or had only the reserve for alerts and ends left.
    public var isDemoted: Bool
    public var rangeCount: UInt16
    /// The number of the command's broadcasts, one for each of its channels; 0 for a start.
    public var broadcastCount: UInt8

    public init(
        timestamp: Int64,
        priority: UInt8,
        frequentUpdatesPriority: UInt8,
        isDemoted: Bool,
        rangeCount: UInt16,
        broadcastCount: UInt8 = 0
    ) {
        self.timestamp = timestamp
        self.priority = priority
        self.frequentUpdatesPriority = frequentUpdatesPriority
        self.isDemoted = isDemoted
        self.rangeCount = rangeCount
        self.broadcastCount = broadcastCount
    }
}

/// What became of one version for one member of an audience, or for one broadcast.
public enum MemberOutcome: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// APNs responded with 200.
    case delivered
    /// The member did not get this version, because a newer version replaced this version.
    case superseded
    /// APNs refused this push, or Causeway cannot make the push or the start. Another attempt would not help.
    case failed
    /// The member has left the audience: its token is dead, or it left while its push waited.
    case unregistered
    /// The version expired before it was sent to the member.
    case expired
    /// The member is a device, and the version is a start: a lane has produced a command that starts an activity on
    /// this device.
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

/// How many members have each outcome, among those that a version has reached. A property whose name begins with
/// `broadcast` counts broadcasts instead of members.
public struct MemberOutcomeCounts: Sendable, Equatable, BitwiseCopyable {
    public var counts: InlineArray<6, UInt32> = .init(repeating: 0)

    public init() {}

    public subscript(outcome: MemberOutcome) -> UInt32 {
        get { counts[Int(outcome.rawValue)] }
        set { counts[Int(outcome.rawValue)] = newValue }
    }

    public var total: UInt64 {
        MemberOutcome.allCases.reduce(0) { $0 + UInt64(self[$1]) }
    }

    /// Adds the counts of another range or broadcast. A count stops at its maximum.
    public mutating func add(_ other: MemberOutcomeCounts) {
        for outcome in MemberOutcome.allCases {
            self[outcome] = UInt32(clamping: UInt64(self[outcome]) + UInt64(other[outcome]))
        }
    }

    public static func == (left: MemberOutcomeCounts, right: MemberOutcomeCounts) -> Bool {
        MemberOutcome.allCases.allSatisfy { left[$0] == right[$0] }
    }
}

/// When APNs responded to the first and the last of a version's pushes, UNIX milliseconds; -1 without a response.
public struct ResponseTimes: Sendable, Equatable, BitwiseCopyable {
    public var firstResponseAtMilliseconds: Int64
    public var lastResponseAtMilliseconds: Int64

    public init(firstResponseAtMilliseconds: Int64 = -1, lastResponseAtMilliseconds: Int64 = -1) {
        self.firstResponseAtMilliseconds = firstResponseAtMilliseconds
        self.lastResponseAtMilliseconds = lastResponseAtMilliseconds
    }

    /// Combines these times with those of another range or broadcast: the earliest first response and the latest last
    /// response.
    public mutating func merge(_ other: ResponseTimes) {
        let firstMilliseconds = other.firstResponseAtMilliseconds
        if firstMilliseconds >= 0, firstResponseAtMilliseconds < 0 || firstMilliseconds < firstResponseAtMilliseconds {
            firstResponseAtMilliseconds = firstMilliseconds
        }
        lastResponseAtMilliseconds = max(lastResponseAtMilliseconds, other.lastResponseAtMilliseconds)
    }
}

/// A change of one member in a segment: it joins, its data changes, or it leaves.
public struct MemberEntry<Bytes> {
    public var location: MemberLocation
    public var isLeaving: Bool
    public var kind: StoreSubjectKind
    public var environment: APNsEnvironment
    /// For an activity: whether its user allows frequent updates.
    public var allowsFrequentUpdates: Bool
    /// For a device: whether its activities may begin on a broadcast channel.
    public var supportsChannels: Bool
    /// When the member's token was registered or, if the member leaves, when it left: UNIX milliseconds. The later
    /// change counts, in whatever order the two are written. So a departure does not remove a member that has
    /// registered after it.
    public var changedAtMilliseconds: Int64
    /// The activity's or the device's id.
    public var identifier: Bytes
    /// The token in hexadecimal digits, in upper or lower case; empty for a member that leaves.
    public var token: Bytes

    public init(
        location: MemberLocation,
        isLeaving: Bool,
        kind: StoreSubjectKind,
        environment: APNsEnvironment,
        allowsFrequentUpdates: Bool,
        supportsChannels: Bool = false,
        changedAtMilliseconds: Int64,
        identifier: Bytes,
        token: Bytes
    ) {
        self.location = location
        self.isLeaving = isLeaving
        self.kind = kind
        self.environment = environment
        self.allowsFrequentUpdates = allowsFrequentUpdates
        self.supportsChannels = supportsChannels
        self.changedAtMilliseconds = changedAtMilliseconds
        self.identifier = identifier
        self.token = token
    }
}

/// The bounds of what is stored for an audience.
public enum AudienceLimits {
    /// The maximum length of the text of ``AudienceCall/Operation/checkpoint(_:claim:text:)``, in bytes.
    public static let checkpointBytesMax = 4_096
    /// The longest page that is read, in bytes. A longer value counts as damaged, because the store lets pages grow
    /// only to about 48 KiB.
    public static let pageBytesMax = 64 * 1_024
}
