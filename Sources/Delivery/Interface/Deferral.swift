import LiveActivity

/// The data beside a deferred command, so that its next reading continues where this reading stopped. (R19)
public struct Deferral: Sendable, Equatable, BitwiseCopyable {
    /// The record in which the command came first. The command's results name it as their source.
    public var topic: RecordTopic
    public var partition: Int32
    public var offset: Int64
    /// How often the command has been deferred.
    public var count: UInt16
    /// The first record's time and receipt, UNIX milliseconds.
    public var recordMilliseconds: Int64
    public var receivedMilliseconds: Int64
    /// How often a push of the command was attempted.
    public var attempts: UInt8
    /// The number of results that the record has had before.
    public var resultsBefore: UInt8
    /// The number of superseded commands that have no result of their own and are counted by this command's
    /// result.
    public var superseded: UInt32
    /// When the token that the command brings was registered, UNIX milliseconds.
    public var registeredAtMilliseconds: Int64
    /// The claim under which Redis may have admitted a start. Each reading of the record draws a new claim
    /// and also names this one. Redis lets the new claim replace the named one once. Otherwise a start would
    /// be lost if its worker died just before it sent the start (simulation `deferrals`, seed 981). (R16)
    public var claim: UInt64
    /// Whether the start was held in Redis. Redis keeps the held start until it learns the outcome.
    public var isHeldStart: Bool
    /// Whether the command had been settled before and was read again because Redis lost data.
    public var isReadAgain: Bool
    /// The version of the command whose alert this one carries; nil: its alert is its own, or it has none.
    public var alertVersion: Version?
    /// The priority of the state without an alert; 0: not known.
    public var statePriority: UInt8
    /// Whether an alert was removed because it was too old. The result says so.
    public var isAlertExpired: Bool
    /// How many attempts of the activity failed in a row because of the service. Each one makes the pause
    /// longer.
    public var serviceFaults: UInt8
    /// The push is not tried before this time, UNIX milliseconds; 0: it may be sent at once.
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
    /// Its pool sends nothing, or less than what waits for it.
    case pool
    /// The start budget of its device is empty.
    case startBudget
    /// Its activity may not send yet, for the spacing of its policy or because APNs limits its token.
    case pace
    /// APNs did not take the push.
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
    /// The data to be written beside a command that is being deferred.
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
            alertVersion: olderAlertVersion,
            statePriority: statePriority,
            isAlertExpired: isAlertExpired,
            serviceFaults: deferralMark.serviceFaults,
            pauseEndMilliseconds: deferralMark.pauseEndMilliseconds
        )
    }

    public var deferralCause: DeferralCause { deferralMark.cause }

    /// Makes a record of the command for the deferred topic.
    public func deferredCommand(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record = commandRecord(app: app)
        if bringsToken { record.token = (token, environment) }
        // `Deferral.alertVersion` has this version, because a producer's command must not name another
        // command's alert.
        record.alertVersion = nil
        return record
    }
}
