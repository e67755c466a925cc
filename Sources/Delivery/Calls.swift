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
        case address, retry
        case registered, stale, unregistered
        case settled
    }

    public var verdict: Verdict
    /// `send`: the timestamp to send. `wait`: milliseconds until the pace allows a push.
    public var number: Int64
    public var environment: DeviceEnvironment
    public var registeredAtMilliseconds: Int64
    public var token: UnsafeRawBufferPointer
    /// `registered`: the command that was held for this token, as a command record; empty if there is none.
    public var heldCommand: UnsafeRawBufferPointer

    public init(
        _ verdict: Verdict,
        number: Int64 = 0,
        environment: DeviceEnvironment = .production,
        registeredAtMilliseconds: Int64 = 0,
        token: UnsafeRawBufferPointer = .init(start: nil, count: 0),
        heldCommand: UnsafeRawBufferPointer = .init(start: nil, count: 0)
    ) {
        self.verdict = verdict
        self.number = number
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
        self.token = token
        self.heldCommand = heldCommand
    }
}

/// A record to be produced. Its delivery report is handed back as `produced`.
public struct Production: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable { case result, invalidation, deadLetter }

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
        /// APNs is overloaded or limits this token.
        case retryLater
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

    public init(
        disposition: Disposition,
        status: UInt16,
        reason: UnsafeRawBufferPointer,
        invalidAtMilliseconds: Int64,
        sentMilliseconds: Int64,
        answeredMilliseconds: Int64,
        connection: UInt32 = 0
    ) {
        self.connection = connection
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

    public init(
        partition: UInt32,
        offset: Int64,
        timestampMilliseconds: Int64,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?
    ) {
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.key = key
        self.value = value
    }
}
