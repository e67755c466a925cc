/// A record that the shell must produce. When the shell has Kafka's delivery report, it calls `deliveryReportReceived`.
/// For `Kind.endWithoutResult` there is nothing to produce, and the shell makes this call at once.
public struct OutgoingRecord: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// A command for the deferred topic.
        case deferral
        /// The source record ends without a result, so the shell writes no record. The shell may note the end in the
        /// source record's trace, and then acknowledges the outgoing record.
        case endWithoutResult
    }

    public var kind: Kind
    public var record: RecordIndex

    public init(kind: Kind, record: RecordIndex) {
        self.kind = kind
        self.record = record
    }

    public var tag: UInt64 { UInt64(kind.rawValue) << 32 | UInt64(record.rawValue) }

    public init?(tag: UInt64) {
        guard let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 32)) else { return nil }
        self.init(kind: kind, record: RecordIndex(rawValue: UInt32(truncatingIfNeeded: tag)))
    }
}

extension OutgoingRecord {
    /// What became of an outgoing record of one of the cores.
    public enum KafkaReport: Sendable {
        case acknowledged
        /// Kafka did not take the record, so the core produces it again. For a `deferral`, the core may instead return
        /// the command to its activity, if the activity's pool sends again.
        case failed
        /// The broker or the Kafka client refuses the record because of its size.
        case tooLarge
    }
}
