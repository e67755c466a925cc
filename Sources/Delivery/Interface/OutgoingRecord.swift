/// A record that the shell must produce to Kafka. When the shell has the delivery report, it calls
/// `handleDeliveryReport`. For `Kind.traceOnly` there is nothing to produce, and the shell calls
/// `handleDeliveryReport` at once.
public struct OutgoingRecord: Sendable, Equatable, RefusableRecord {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        case result, invalidation, deadLetter
        /// A command that the shell writes to the deferred topic.
        case deferral
        /// Nothing to write to Kafka, because the source record ends without a result. The shell may note the end in
        /// the source record's trace, and then acknowledges this outgoing record like any other.
        case traceOnly
    }

    public var kind: Kind
    /// How often Kafka has refused this record as too large.
    package private(set) var refusalCount: UInt8 = 0
    public var record: RecordIndex

    /// How often a record is produced again after Kafka has refused it as too large. Kafka refuses all records of a
    /// batch that is too large, so the refusal may be due to other records (``OutgoingRecordQueue``). The number fits
    /// into three bits of a tag.
    package static var retriesAfterRefusalMax: UInt8 { 7 }

    public init(kind: Kind, record: RecordIndex) {
        self.kind = kind
        self.record = record
    }

    public var tag: UInt64 {
        UInt64(refusalCount) << 40 | UInt64(kind.rawValue) << 32 | UInt64(record.rawValue)
    }

    /// Nil if the tag names no kind of outgoing record.
    public init?(tag: UInt64) {
        guard let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 32)) else { return nil }
        self.init(kind: kind, record: RecordIndex(rawValue: UInt32(truncatingIfNeeded: tag)))
        refusalCount = UInt8(truncatingIfNeeded: tag >> 40)
    }

    /// The next attempt after Kafka has refused this one as too large; nil if there were enough.
    var nextAttempt: OutgoingRecord? {
        guard refusalCount < Self.retriesAfterRefusalMax else { return nil }
        var attempt = self
        attempt.refusalCount += 1
        return attempt
    }
}

extension OutgoingRecord {
    /// What became of an outgoing record of one of the cores.
    public enum KafkaReport: Sendable {
        case acknowledged
        /// Kafka did not take the record, so the core produces it again. A command that could not be deferred may
        /// instead return to its activity, if its pool sends again.
        case failed
        /// The broker refuses the record's batch because of its size, or the Kafka client refuses the record.
        case tooLarge
    }
}
