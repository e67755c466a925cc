import LiveActivity

/// What a deferred record has beside its command, so that the lane that reads it continues where the lane that wrote it
/// stopped. (R19)
public struct Deferral: Sendable, Equatable, BitwiseCopyable {
    /// The topic, partition and offset of the source record, from which the command was first read. The command's
    /// results name this record. For a command that Redis held, the source record is the record whose token released
    /// the command.
    public var sourceTopic: RecordTopic
    public var sourcePartition: Int32
    public var sourceOffset: Int64
    /// How often the command has been deferred. Each deferral counts, also those by other workers.
    public var count: UInt16
    /// Kafka's timestamp of the source record, UNIX milliseconds; -1: none.
    public var recordTimestampMilliseconds: Int64
    /// When a lane received the source record, UNIX milliseconds; -1: not known.
    public var receivedAtWallMilliseconds: Int64
    /// How often a push of the command was attempted.
    public var attemptCount: UInt8
    /// How many results the source record had before this command was deferred. A record that brings a token may have
    /// several (``RecordView/earlierResultCount``).
    public var earlierResultCount: UInt8
    /// The number of superseded commands that this command's result must count, because they have no results of their
    /// own.
    public var supersededCount: UInt32
    /// When the token in the deferred record was registered, UNIX milliseconds; no meaning if the record has no token.
    public var registeredAtWallMilliseconds: Int64
    /// For a start: the claim with which Redis may have admitted it; 0: there is none. The lane that reads the deferred
    /// record makes a new claim, and names both claims to Redis. Redis then passes the permission on to the new claim.
    /// Without this claim, Redis would reply `unknown` for a start that it had admitted, and the start would be lost.
    /// (R16)
    public var claim: UInt64
    /// Whether Redis held the start. If so, Redis keeps it until the lane settles it.
    public var isHeldStart: Bool
    /// Whether the command is reread: it had been settled before, and Redis lost what it wrote.
    public var isReread: Bool
    /// The version of the older command whose alert this command carries; nil: it carries none.
    public var carriedAlertVersion: Version?
    /// The priority with which the command's state is sent if its alert is removed; 0: not known.
    public var priorityWithoutAlert: UInt8
    /// Whether the lane removed an alert because it was too old. The result says so.
    public var wasAlertRemovedByAge: Bool
    /// How many attempts to push to the activity failed in a row for a reason that only delays a push (R18). Each
    /// failure makes the next pause longer, up to a maximum.
    public var serviceFailureCount: UInt8
    /// The push is not tried before this time, UNIX milliseconds; 0: there is no pause.
    public var pauseEndWallMilliseconds: Int64

    public init(
        sourceTopic: RecordTopic,
        sourcePartition: Int32,
        sourceOffset: Int64,
        count: UInt16,
        recordTimestampMilliseconds: Int64 = -1,
        receivedAtWallMilliseconds: Int64 = -1,
        attemptCount: UInt8 = 0,
        earlierResultCount: UInt8 = 0,
        supersededCount: UInt32 = 0,
        registeredAtWallMilliseconds: Int64 = 0,
        claim: UInt64 = 0,
        isHeldStart: Bool = false,
        isReread: Bool = false,
        carriedAlertVersion: Version? = nil,
        priorityWithoutAlert: UInt8 = 0,
        wasAlertRemovedByAge: Bool = false,
        serviceFailureCount: UInt8 = 0,
        pauseEndWallMilliseconds: Int64 = 0
    ) {
        self.sourceTopic = sourceTopic
        self.sourcePartition = sourcePartition
        self.sourceOffset = sourceOffset
        self.count = count
        self.recordTimestampMilliseconds = recordTimestampMilliseconds
        self.receivedAtWallMilliseconds = receivedAtWallMilliseconds
        self.attemptCount = attemptCount
        self.earlierResultCount = earlierResultCount
        self.supersededCount = supersededCount
        self.registeredAtWallMilliseconds = registeredAtWallMilliseconds
        self.claim = claim
        self.isHeldStart = isHeldStart
        self.isReread = isReread
        self.carriedAlertVersion = carriedAlertVersion
        self.priorityWithoutAlert = priorityWithoutAlert
        self.wasAlertRemovedByAge = wasAlertRemovedByAge
        self.serviceFailureCount = serviceFailureCount
        self.pauseEndWallMilliseconds = pauseEndWallMilliseconds
    }
}

/// Why a command is deferred.
public enum DeferralCause: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The command's pool sends nothing, or too little for the pushes that wait for it.
    case pool
    /// The budget of starts of the command's device is empty.
    case startBudget
    /// The command's activity must not send yet, for example because the spacing after its last push is not over, or
    /// because APNs limits its token.
    case pace
    /// The command's push failed for a reason that only delays it (R18), and must wait for its next attempt.
    case retry

    public var name: StaticString {
        switch self {
        case .pool: "pool"
        case .startBudget: "startBudget"
        case .pace: "pace"
        case .retry: "retry"
        }
    }
}

extension RecordView {
    /// The data that the deferred record must have beside this command.
    public var deferral: Deferral {
        Deferral(
            sourceTopic: sourceTopic,
            sourcePartition: sourcePartition,
            sourceOffset: sourceOffset,
            count: recordDeferral.count,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            receivedAtWallMilliseconds: receivedAtWallMilliseconds,
            attemptCount: attemptCount,
            earlierResultCount: UInt8(clamping: earlierResultCount),
            supersededCount: UInt32(clamping: supersededCount),
            registeredAtWallMilliseconds: registeredAtWallMilliseconds,
            claim: claim,
            isHeldStart: isHeldStart,
            isReread: isReread,
            carriedAlertVersion: sourceAlertVersion,
            priorityWithoutAlert: priorityWithoutAlert,
            wasAlertRemovedByAge: wasAlertRemovedByAge,
            serviceFailureCount: recordDeferral.serviceFailureCount,
            pauseEndWallMilliseconds: recordDeferral.pauseEndWallMilliseconds
        )
    }

    public var deferralCause: DeferralCause { recordDeferral.cause }

    /// Makes the record that the shell writes to the deferred topic.
    public func deferredCommand(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record = commandRecord(app: app)
        if deferralNeedsToken { record.token = (token, environment) }
        // A command that is read from a topic must not name the alert of another command. So the version of a carried
        // alert is in `Deferral.carriedAlertVersion` instead.
        record.carriedAlertVersion = nil
        return record
    }
}
