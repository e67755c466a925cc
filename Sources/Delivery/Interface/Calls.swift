import LiveActivity

/// A call of one of the two scripts, to be made for one record. The shell reads the arguments from the record's view.
public struct RedisCall: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        /// `admit`, a start's look-up of the push-to-start token in its device's hash.
        case address
        /// `admit`, a command on its activity's hash.
        case admit
        /// `admit`, a command without a token is stored: on the activity's hash, or a start's on its device's.
        case hold
        /// `admit`, a registration.
        case register
        /// `admit`, a tombstone of the registrations topic, on the activity's and on the device's hash of one app.
        case unregisterActivity
        case unregisterDevice
        /// `settle`, on the activity's hash.
        case settle
        /// `settle`, on a device's hash: a push-to-start token that is dead, or a held start that is done.
        case settleDevice
        /// `settle`, on the activity's hash: APNs limits its token, so its spacing is stretched. The command itself goes on.
        case limit
        /// A start that was given its device's token and was then not sent gives its draw on the device's budget back.
        case refundStart

        /// Its record's next step is the reply. A tombstone, of which there are several calls, is counted once, by itself.
        var isAwaited: Bool {
            switch self {
            case .address, .admit, .hold, .register, .limit: true
            case .unregisterActivity, .unregisterDevice, .settle, .settleDevice, .refundStart: false
            }
        }
    }

    public var kind: Kind
    /// Which configured app, for an unregistration, which does not name one.
    public var application: UInt16
    public var record: UInt32

    public init(kind: Kind, application: UInt16, record: UInt32) {
        self.kind = kind
        self.application = application
        self.record = record
    }

    /// The call as one number, for whoever sends it with a request and gets it back with the reply.
    public var tag: UInt64 { UInt64(kind.rawValue) << 48 | UInt64(application) << 32 | UInt64(record) }

    /// - Returns: nil if `tag` is none of ours.
    public init?(tag: UInt64) {
        guard let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 48)) else { return nil }
        self.init(
            kind: kind,
            application: UInt16(truncatingIfNeeded: tag >> 32),
            record: UInt32(truncatingIfNeeded: tag)
        )
    }
}

/// What a script answered. The pointers are valid during the call that hands it over.
public struct ScriptReply {
    public enum Verdict: UInt8, Sendable {
        case send, wait, noToken, held, ended, superseded, duplicate, unchanged, unknown
        /// The activity is older than APNs lets one be updated.
        case tooOld
        /// Older than the newest admitted, which is not settled and carries no alert, while this one has one.
        case overtaken
        /// The command that is held carries an alert, and this one has none: nothing was changed, and the held one comes along.
        case alertHeld
        case address, retry
        /// As many starts as may be are held for the device's token already.
        case full
        case registered, stale, unregistered
        case settled
    }

    public var verdict: Verdict
    /// `send`: the timestamp to send. `wait`: milliseconds until the pace allows a push, or the device's budget a start. `address`: what
    /// names the draw on that budget.
    public var number: Int64
    public var environment: DeviceEnvironment
    public var registeredAtMilliseconds: Int64
    public var token: UnsafeRawBufferPointer
    /// `registered`: the command that was held for this token, as a command record; empty if there is none. `alertHeld`: the one that
    /// is held.
    public var heldCommand: UnsafeRawBufferPointer
    /// `send` of an update or an end: the priority that the activity's budget allows, 5 or 10; 0 says that it was not asked.
    public var priority: UInt8
    /// `send`: 10 was asked for and the budget allows 5 only.
    public var isDemoted: Bool
    /// `send`: pushes of priority 10 that the budget allows after this one; -1 says that it was not asked.
    public var budgetLeft: Int

    public init(
        _ verdict: Verdict,
        number: Int64 = 0,
        environment: DeviceEnvironment = .production,
        registeredAtMilliseconds: Int64 = 0,
        token: UnsafeRawBufferPointer = .init(start: nil, count: 0),
        heldCommand: UnsafeRawBufferPointer = .init(start: nil, count: 0),
        priority: UInt8 = 0,
        isDemoted: Bool = false,
        budgetLeft: Int = -1
    ) {
        self.verdict = verdict
        self.number = number
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
        self.token = token
        self.heldCommand = heldCommand
        self.priority = priority
        self.isDemoted = isDemoted
        self.budgetLeft = budgetLeft
    }
}

/// A record to be produced. Its delivery report is handed back as `produced`.
public struct Production: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// Nothing is written: the record is over without a result, and its trace may be told of it. Acknowledged when that is done.
        case trace
    }

    public var kind: Kind
    public var record: UInt32

    public init(kind: Kind, record: UInt32) {
        self.kind = kind
        self.record = record
    }

    public var tag: UInt64 { UInt64(kind.rawValue) << 32 | UInt64(record) }

    public init?(tag: UInt64) {
        guard let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 32)) else { return nil }
        self.init(kind: kind, record: UInt32(truncatingIfNeeded: tag))
    }
}

/// How the producer fared with a record.
public enum ProductionReport: Sendable {
    case acknowledged
    /// Not acknowledged; it is produced again.
    case failed
    /// The broker refuses it for its size.
    case tooLarge
}

/// What came of a push.
public struct PushResult {
    /// What an answer asks for; the meaning of APNs' reasons, without their names.
    public enum Disposition: UInt8, Sendable {
        case accepted
        /// APNs never processed it, or asks for another connection or provider token: it may go again at once.
        case retryNow
        /// APNs is overloaded.
        case retryLater
        /// APNs limits this token: later, and its activity less often.
        case limited
        /// The token is dead.
        case tokenDead
        /// Refused, and no retry mends it; the token is kept.
        case rejected
        /// Sent, and no answer came.
        case ambiguous
    }

    public var disposition: Disposition
    /// HTTP status, 0 without an answer.
    public var status: UInt16
    /// Apple's reason as it came, or ours when there was no answer; at most 64 bytes are kept.
    public var reason: UnsafeRawBufferPointer
    /// A 410's own time, UNIX milliseconds; -1 if it has none.
    public var invalidAtMilliseconds: Int64
    public var sentMilliseconds: Int64
    public var answeredMilliseconds: Int64
    /// The pool's number of the connection that carried it, 0 for none: a retry avoids it.
    public var connection: UInt32
    /// Another attempt is within the pool's retry budget.
    public var retryPermitted: Bool

    public init(
        disposition: Disposition,
        status: UInt16,
        reason: UnsafeRawBufferPointer,
        invalidAtMilliseconds: Int64,
        sentMilliseconds: Int64,
        answeredMilliseconds: Int64,
        connection: UInt32 = 0,
        retryPermitted: Bool = true
    ) {
        self.connection = connection
        self.retryPermitted = retryPermitted
        self.disposition = disposition
        self.status = status
        self.reason = reason
        self.invalidAtMilliseconds = invalidAtMilliseconds
        self.sentMilliseconds = sentMilliseconds
        self.answeredMilliseconds = answeredMilliseconds
    }
}

/// One APNs pool of the lane: an app in an environment.
public struct PoolIndex: Sendable, Equatable, BitwiseCopyable {
    public var application: UInt16
    public var environment: DeviceEnvironment

    public init(application: UInt16, environment: DeviceEnvironment) {
        self.application = application
        self.environment = environment
    }

    var position: Int { Int(application) * 2 + Int(environment.rawValue) }
}

/// A record as it comes from Kafka. The pointers are valid during the call that hands it over.
public struct IncomingRecord {
    public var partition: UInt32
    public var offset: Int64
    /// UNIX milliseconds of the record; -1 if it has none.
    public var timestampMilliseconds: Int64
    public var key: UnsafeRawBufferPointer?
    /// nil: a tombstone.
    public var value: UnsafeRawBufferPointer?
    /// Kept beside the record for whoever reads its view; the core does not look at it. Empty for none.
    public var trace: UnsafeRawBufferPointer

    public init(
        partition: UInt32,
        offset: Int64,
        timestampMilliseconds: Int64,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        trace: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.trace = trace
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.key = key
        self.value = value
    }
}
