import Delivery
import LiveActivity

/// The records that this core produces, in a queue for each topic. If a topic accepts nothing, only its queue pauses.
/// At most ``Audiences/unacknowledgedRecordsPerTopicMax`` records of each topic are on their way to Kafka, so a topic
/// that acknowledges nothing takes no places from the others.
///
/// The queues keep no order between topics. If a record must come after a record of another topic, the core queues it
/// only when Kafka has acknowledged the other record. For example, a range gets its result when the results and
/// invalidations of its members are acknowledged.
struct OutgoingAudienceRecordQueues: ~Copyable {
    private var fanoutRecords: OutgoingRecordQueue<OutgoingAudienceRecord>
    private var starts: OutgoingRecordQueue<OutgoingAudienceRecord>
    /// Results of commands, ranges, broadcasts and members.
    private var results: OutgoingRecordQueue<OutgoingAudienceRecord>
    private var invalidations: OutgoingRecordQueue<OutgoingAudienceRecord>
    // How many results and invalidations are on their way to Kafka. Fan-out records and starts are not counted here,
    // because the core counts them before it queues them.
    private var unacknowledgedResultCount = 0
    private var unacknowledgedInvalidationCount = 0

    init(_ configuration: AudiencesConfiguration) {
        fanoutRecords = OutgoingRecordQueue(limit: Audiences.unacknowledgedRecordsPerTopicMax)
        starts = OutgoingRecordQueue(limit: configuration.unacknowledgedStartsMax)
        // Range versions and broadcasts have a table of `fanoutRecordsMax` slots each. Each slot has at most two
        // results: its own, and that of its whole command.
        results = OutgoingRecordQueue(limit: configuration.fanoutRecordsMax * 4 + configuration.refusedMembersMax)
        invalidations = OutgoingRecordQueue(limit: configuration.refusedMembersMax)
    }

    mutating func append(_ outgoingRecord: OutgoingAudienceRecord) {
        switch outgoingRecord.kind.topic {
        case .fanoutRecords: fanoutRecords.append(outgoingRecord)
        case .starts: starts.append(outgoingRecord)
        case .results: results.append(outgoingRecord)
        case .invalidations: invalidations.append(outgoingRecord)
        }
    }

    /// Returns the next record to produce; nil if there is none. Fan-out records come first, then starts, because
    /// members wait for them; then results, then invalidations. A queue is left out while it pauses, or while its
    /// maximum of results or invalidations is on its way to Kafka.
    mutating func next(now: Moment) -> OutgoingAudienceRecord? {
        if let outgoingRecord = fanoutRecords.next(now: now) { return outgoingRecord }
        if let outgoingRecord = starts.next(now: now) { return outgoingRecord }
        if unacknowledgedResultCount < Audiences.unacknowledgedRecordsPerTopicMax,
            let outgoingRecord = results.next(now: now)
        {
            return outgoingRecord
        }
        guard unacknowledgedInvalidationCount < Audiences.unacknowledgedRecordsPerTopicMax else { return nil }
        return invalidations.next(now: now)
    }

    /// Removes the first record of the queue for this kind, because the record is on its way to Kafka. The caller must
    /// call ``noteReport(_:)`` after Kafka's report on the record.
    mutating func removeFirst(_ kind: OutgoingAudienceRecord.Kind) {
        switch kind.topic {
        case .fanoutRecords: fanoutRecords.removeFirst()
        case .starts: starts.removeFirst()
        case .results:
            unacknowledgedResultCount += 1
            results.removeFirst()
        case .invalidations:
            unacknowledgedInvalidationCount += 1
            invalidations.removeFirst()
        }
    }

    /// Notes Kafka's report on a record of this kind: the record is no longer on its way.
    mutating func noteReport(_ kind: OutgoingAudienceRecord.Kind) {
        switch kind.topic {
        case .fanoutRecords, .starts: break
        case .results: unacknowledgedResultCount -= 1
        case .invalidations: unacknowledgedInvalidationCount -= 1
        }
    }

    /// Queues a record again after a failure to write it, and pauses its queue.
    mutating func retry(_ outgoingRecord: OutgoingAudienceRecord, now: Moment) {
        switch outgoingRecord.kind.topic {
        case .fanoutRecords: fanoutRecords.retry(outgoingRecord, now: now)
        case .starts: starts.retry(outgoingRecord, now: now)
        case .results: results.retry(outgoingRecord, now: now)
        case .invalidations: invalidations.retry(outgoingRecord, now: now)
        }
    }

    /// Queues a record again that Kafka has refused as too large, and pauses its queue.
    mutating func retryInSmallGroup(_ outgoingRecord: OutgoingAudienceRecord, now: Moment) {
        switch outgoingRecord.kind.topic {
        case .fanoutRecords: fanoutRecords.retryInSmallGroup(outgoingRecord, now: now)
        case .starts: starts.retryInSmallGroup(outgoingRecord, now: now)
        case .results: results.retryInSmallGroup(outgoingRecord, now: now)
        case .invalidations: invalidations.retryInSmallGroup(outgoingRecord, now: now)
        }
    }

    mutating func endPausesIfDue(now: Moment) {
        fanoutRecords.endPauseIfDue(now: now)
        starts.endPauseIfDue(now: now)
        results.endPauseIfDue(now: now)
        invalidations.endPauseIfDue(now: now)
    }

    /// When the next pause ends (monotonic milliseconds); nil if no record waits for the end of a pause.
    var dueMilliseconds: Int64? {
        var dueMilliseconds = fanoutRecords.dueMilliseconds ?? .max
        dueMilliseconds = min(dueMilliseconds, starts.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, results.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, invalidations.dueMilliseconds ?? .max)
        return dueMilliseconds == .max ? nil : dueMilliseconds
    }
}

extension OutgoingAudienceRecord.Kind {
    fileprivate enum Topic { case fanoutRecords, starts, results, invalidations }

    fileprivate var topic: Topic {
        switch self {
        case .fanout: .fanoutRecords
        case .start: .starts
        case .rangeResult, .commandResult, .memberResult, .broadcastResult, .commandResultAfterBroadcast: .results
        case .invalidation: .invalidations
        }
    }
}
