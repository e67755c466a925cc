import LiveActivity

/// A record that the shell must produce, or the end of a trace. The shell passes the record's delivery report to
/// `productionEnded`.
public struct Production: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// A command for the deferred topic.
        case deferral
        /// The source record ends without a result, so the shell writes no record. The shell may note the end in the
        /// source record's trace, and then acknowledges the production.
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

/// How the production of a record ended.
public enum ProductionReport: Sendable {
    case acknowledged
    /// Kafka did not take the record. The core produces it again; or, if it is a deferred command whose pool sends
    /// again, the core queues the command for its activity.
    case failed
    /// The broker or the Kafka client refuses the record because of its size.
    case tooLarge
}

/// How one attempt to send a push ended.
public struct PushResult {
    /// What APNs' answer means for the push. Different reasons of APNs may have the same meaning. Repeats the
    /// cases of `APNs.ResponseDisposition` that the core needs, because the core imports no shell.
    public enum Disposition: UInt8, Sendable {
        case accepted
        /// APNs did not process the push, or asks for another connection or provider token. The push may be
        /// sent again at once.
        case retryNow
        /// APNs has a fault, or refuses everything that this provider sends. The push is sent again later.
        case retryLater
        /// APNs limits this token or channel. Retry later, and push to it less often.
        case limited
        /// APNs says that the token is dead.
        case tokenDead
        /// APNs does not know the token, or Causeway uses the wrong environment. The token is retired only if
        /// `acceptsOtherTokens`, because then the environment is right.
        case tokenSuspect
        /// The token belongs to another topic (bundle id), or Causeway uses the wrong topic. The token is kept.
        case topicSuspect
        /// A broadcast's channel does not exist in this environment.
        case channelGone
        /// APNs refused this push for good, for a reason that does not concern its token, or the pool did not send it
        /// because it is malformed. The token is kept.
        case rejected
        /// The push was sent and no answer came, so a phone may have it.
        case ambiguous

        /// Whether the answer decides about this push or its token. Such an answer counts as a sign that APNs works.
        package var isDecision: Bool {
            switch self {
            case .accepted, .limited, .tokenDead, .tokenSuspect, .channelGone, .rejected: true
            case .retryNow, .retryLater, .topicSuspect, .ambiguous: false
            }
        }
    }

    public var disposition: Disposition
    /// HTTP status; 0 without an answer.
    public var status: UInt16
    /// APNs' reason, of which the core keeps at most 64 bytes; empty if there is none. The record then gets Causeway's
    /// own reason.
    public var reason: UnsafeRawBufferPointer
    /// What an operator should do about the reason; empty: nothing.
    public var advice: StaticString
    /// From when on APNs calls the token dead, UNIX milliseconds. Only an answer 410 has this time; -1: none.
    public var invalidAtMilliseconds: Int64
    /// When the push was sent, UNIX milliseconds; -1 if it was not sent completely.
    public var sentMilliseconds: Int64
    public var answeredMilliseconds: Int64
    /// The number of the pool's connection that sent the push; 0: none. A retry avoids that connection.
    public var connection: UInt32
    /// Whether the pool may retry a push now (`RetryPermission`).
    public var isRetryPermitted: Bool
    /// Whether a refusal can be blamed on the push's token: the pool's circuit breaker is closed, and APNs has
    /// accepted a push of the pool to a device since it last refused a token as unknown or as one of another topic. If
    /// false, the configuration of the app may be wrong, not the token.
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
        isRetryPermitted: Bool = true,
        acceptsOtherTokens: Bool = true
    ) {
        self.acceptsOtherTokens = acceptsOtherTokens
        self.connection = connection
        self.isRetryPermitted = isRetryPermitted
        self.disposition = disposition
        self.status = status
        self.reason = reason
        self.advice = advice
        self.invalidAtMilliseconds = invalidAtMilliseconds
        self.sentMilliseconds = sentMilliseconds
        self.answeredMilliseconds = answeredMilliseconds
    }
}

/// An APNs pool of the lane: an app in one environment.
public struct PoolIdentifier: Sendable, Equatable, BitwiseCopyable {
    public var application: UInt16
    public var environment: DeviceEnvironment

    public init(application: UInt16, environment: DeviceEnvironment) {
        self.application = application
        self.environment = environment
    }

}

/// A record from Kafka. Its pointers are valid only during the call that takes the record.
public struct IncomingRecord {
    public var partition: UInt32
    public var offset: Int64
    /// The time that Kafka has for the record, UNIX milliseconds; -1 if it has none.
    public var timestampMilliseconds: Int64
    public var key: UnsafeRawBufferPointer?
    /// Nil if the record has no value. On the registrations topic, such a record is a tombstone.
    public var value: UnsafeRawBufferPointer?
    /// The trace header of the record; empty if there is none. The core does not decode it, and keeps it for
    /// `RecordView.trace`.
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
