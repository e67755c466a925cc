/// A record that the shell must produce to Kafka. When the shell has the delivery report, it calls
/// `handleDeliveryReport`. For `Kind.traceOnly` there is nothing to produce, and the shell calls
/// `handleDeliveryReport` at once.
public struct OutgoingRecord: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// A command that the shell writes to the deferred topic.
        case deferral
        /// Nothing to write to Kafka, because the source record ends without a result. The shell may note the end in
        /// the source record's trace, and then acknowledges this outgoing record like any other.
        case traceOnly
    }

    public var kind: Kind
    public var record: RecordIndex

    public init(kind: Kind, record: RecordIndex) {
        self.kind = kind
        self.record = record
    }

    public var tag: UInt64 { UInt64(kind.rawValue) << 32 | UInt64(record.rawValue) }

    /// Nil if the tag names no kind of outgoing record.
    public init?(tag: UInt64) {
        guard let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 32)) else { return nil }
        self.init(kind: kind, record: RecordIndex(rawValue: UInt32(truncatingIfNeeded: tag)))
    }
}

extension OutgoingRecord {
    /// What became of an outgoing record of one of the cores.
    public enum KafkaReport: Sendable {
        case acknowledged
        /// Kafka did not take the record, so the core produces it again. A command that could not be deferred may
        /// instead return to its activity, if its pool sends again.
        case failed
        /// The broker or the Kafka client refuses the record because of its size.
        case tooLarge
    }
}
