import LiveActivity

/// What is written beside a deferred command, so that its next reading goes on where this one ended.
public struct Deferral: Sendable, Equatable, BitwiseCopyable {
    /// The record that the command came in first. Its results name it as their source.
    public var topic: RecordTopic
    public var partition: Int32
    public var offset: Int64
    /// How often the command has been deferred.
    public var count: UInt16
    /// Of the first record and its receipt, UNIX milliseconds.
    public var recordMilliseconds: Int64
    public var receivedMilliseconds: Int64
    /// Attempts at its push.
    public var attempts: UInt8
    /// Results that its record has had before.
    public var resultsBefore: UInt8
    /// Commands without a result that it counts.
    public var superseded: UInt32
    /// Of the token that the command brings.
    public var registeredAtMilliseconds: Int64
    /// A start's, by which Redis may know it. Each reading of the record has one of its own, which takes its place once.
    public var claim: UInt64
    /// The start was held, and Redis holds it until it is told of its outcome.
    public var isHeldStart: Bool
    /// It was settled before, and read once more because Redis had lost what it wrote.
    public var isReadAgain: Bool
    /// The version of the command whose alert it carries; nil: the alert is its own, if there is one.
    public var alertVersion: Version?
    /// The priority that the state has without an alert, or 0.
    public var statePriority: UInt8
    /// An alert was removed since it was too old, which its result says.
    public var isAlertExpired: Bool
    /// Faults of its activity in a row, with which the pauses grow.
    public var serviceFaults: UInt8
    /// Until when its push is not to be tried again, UNIX milliseconds; 0: it may be at once.
    public var pauseEndMilliseconds: Int64

    public init(
        topic: RecordTopic,
        partition: Int32,
        offset: Int64,
        count: UInt16,
        recordMilliseconds: Int64 = -1,
        receivedMilliseconds: Int64 = -1,
        attempts: UInt8 = 0,
        resultsBefore: UInt8 = 0,
        superseded: UInt32 = 0,
        registeredAtMilliseconds: Int64 = 0,
        claim: UInt64 = 0,
        isHeldStart: Bool = false,
        isReadAgain: Bool = false,
        alertVersion: Version? = nil,
        statePriority: UInt8 = 0,
        isAlertExpired: Bool = false,
        serviceFaults: UInt8 = 0,
        pauseEndMilliseconds: Int64 = 0
    ) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.count = count
        self.recordMilliseconds = recordMilliseconds
        self.receivedMilliseconds = receivedMilliseconds
        self.attempts = attempts
        self.resultsBefore = resultsBefore
        self.superseded = superseded
        self.registeredAtMilliseconds = registeredAtMilliseconds
        self.claim = claim
        self.isHeldStart = isHeldStart
        self.isReadAgain = isReadAgain
        self.alertVersion = alertVersion
        self.statePriority = statePriority
        self.isAlertExpired = isAlertExpired
        self.serviceFaults = serviceFaults
        self.pauseEndMilliseconds = pauseEndMilliseconds
    }
}

/// Why a command could not be sent soon.
public enum DeferralCause: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// Its pool sends nothing, or less than waits for it.
    case pool
    /// Its device is out of starts.
    case startBudget
    /// Its activity rests: for its policy's spacing, or since APNs limits its token.
    case pace
    /// APNs did not take it.
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
    /// What is written beside a command that is being deferred.
    public var deferral: Deferral {
        Deferral(
            topic: topic,
            partition: partition,
            offset: offset,
            count: deferralMark.count,
            recordMilliseconds: recordMilliseconds,
            receivedMilliseconds: receivedMilliseconds,
            attempts: attempts,
            resultsBefore: UInt8(clamping: resultsBefore),
            superseded: UInt32(clamping: superseded),
            registeredAtMilliseconds: registeredAtMilliseconds,
            claim: claim,
            isHeldStart: isHeldStart,
            isReadAgain: isReadAgain,
            alertVersion: foreignAlert,
            statePriority: statePriority,
            isAlertExpired: isAlertExpired,
            serviceFaults: deferralMark.serviceFaults,
            pauseEndMilliseconds: deferralMark.pauseEndMilliseconds
        )
    }

    public var deferralCause: DeferralCause { deferralMark.cause }

    /// The command as a record of the deferred topic.
    public func deferredCommand(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record = commandRecord(app: app)
        if bringsToken { record.token = (token, environment) }
        // Beside it (`Deferral.alertVersion`), since a producer's command may not name another's alert.
        record.alertVersion = nil
        return record
    }
}
