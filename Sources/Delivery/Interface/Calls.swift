import LiveActivity

/// A record to be produced. Its delivery report is handed back as `produced`.
public struct Production: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// To the deferred topic.
        case deferral
        /// Nothing is written: the record ends without a result, and its trace may record that. Acknowledged afterwards.
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

/// The producer's report on a record.
public enum ProductionReport: Sendable {
    case acknowledged
    /// Not acknowledged: the record is produced again.
    case failed
    /// The broker refuses the record for its size.
    case tooLarge
}

/// The outcome of one attempt to send a push.
public struct PushResult {
    /// What an answer means for the push, whatever APNs calls its reason.
    public enum Disposition: UInt8, Sendable {
        case accepted
        /// APNs did not process the push, or asks for another connection or provider token: it may be sent again at once.
        case retryNow
        /// APNs is in trouble, or refuses whatever this provider sends.
        case retryLater
        /// APNs limits this token: retry later, and push to the activity less often.
        case limited
        /// The token is dead.
        case tokenDead
        /// APNs does not know the token, or the environment is wrong: the token is retired only where APNs accepts others.
        case tokenSuspect
        /// The token is another topic's, or the topic is wrong: the token is kept.
        case topicSuspect
        /// Of a broadcast: its channel does not exist any more.
        case channelGone
        /// Refused for a permanent reason of this very push; the token is kept.
        case rejected
        /// Sent, and no answer came.
        case ambiguous

        /// Whether APNs said something of this push or its token: then it is there.
        package var isJudgement: Bool {
            switch self {
            case .accepted, .limited, .tokenDead, .tokenSuspect, .channelGone, .rejected: true
            case .retryNow, .retryLater, .topicSuspect, .ambiguous: false
            }
        }
    }

    public var disposition: Disposition
    /// HTTP status, 0 without an answer.
    public var status: UInt16
    /// APNs' reason, or ours when there was no answer; at most 64 bytes are kept.
    public var reason: UnsafeRawBufferPointer
    /// What an operator does about the reason; empty for nothing.
    public var advice: StaticString
    /// The timestamp of a 410, UNIX milliseconds; -1 if it has none.
    public var invalidAtMilliseconds: Int64
    /// When the push had left, UNIX milliseconds; -1 if it did not.
    public var sentMilliseconds: Int64
    public var answeredMilliseconds: Int64
    /// The pool's number of the connection that carried the push, 0 for none: a retry avoids that connection.
    public var connection: UInt32
    /// Whether another attempt is within the pool's retry budget.
    public var retryPermitted: Bool
    /// Whether the pool sends, and APNs has accepted another token since it last called one unknown: else a refused token reflects the
    /// configuration and not itself.
    public var acceptsOtherTokens: Bool

    public init(
        disposition: Disposition,
        status: UInt16,
        reason: UnsafeRawBufferPointer,
        advice: StaticString = "",
        invalidAtMilliseconds: Int64,
        sentMilliseconds: Int64,
        answeredMilliseconds: Int64,
        connection: UInt32 = 0,
        retryPermitted: Bool = true,
        acceptsOtherTokens: Bool = true
    ) {
        self.acceptsOtherTokens = acceptsOtherTokens
        self.connection = connection
        self.retryPermitted = retryPermitted
        self.disposition = disposition
        self.status = status
        self.reason = reason
        self.advice = advice
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

}

/// A record from Kafka. The pointers are valid only during the call that takes it.
public struct IncomingRecord {
    public var partition: UInt32
    public var offset: Int64
    /// UNIX milliseconds of the record; -1 if it has none.
    public var timestampMilliseconds: Int64
    public var key: UnsafeRawBufferPointer?
    /// nil: a tombstone.
    public var value: UnsafeRawBufferPointer?
    /// Kept beside the record for readers of its view; the core does not read it. Empty for none.
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
