/// The records that this core produces, in a queue for each topic. If a topic accepts nothing, only its queue pauses.
///
/// The queues keep no order between topics. A step that must come first is acknowledged before the core begins the next
/// step: for example, the invalidation of a token is acknowledged before Redis retires the token (R17).
///
/// The core `Audiences` has such queues for its own kinds of records (`OutgoingAudienceRecordQueues`). Both share
/// ``OutgoingRecordQueue``.
struct OutgoingRecordQueues: ~Copyable {
    private var invalidations: OutgoingRecordQueue<OutgoingRecord>
    private var deadLetters: OutgoingRecordQueue<OutgoingRecord>
    /// Results, and traces without a result, which go to no topic.
    private var results: OutgoingRecordQueue<OutgoingRecord>
    private var deferrals: OutgoingRecordQueue<OutgoingRecord>

    /// - Parameter recordsMax: the maximum number of records in the core. Each has at most one outgoing record in each
    ///   queue.
    init(recordsMax: Int) {
        invalidations = OutgoingRecordQueue(limit: recordsMax)
        deadLetters = OutgoingRecordQueue(limit: recordsMax)
        results = OutgoingRecordQueue(limit: recordsMax)
        deferrals = OutgoingRecordQueue(limit: recordsMax)
    }

    mutating func append(_ outgoingRecord: OutgoingRecord) {
        switch outgoingRecord.kind {
        case .result, .traceOnly: results.append(outgoingRecord)
        case .invalidation: invalidations.append(outgoingRecord)
        case .deadLetter: deadLetters.append(outgoingRecord)
        case .deferral: deferrals.append(outgoingRecord)
        }
    }

    /// Returns the first record of the first queue that has one and does not pause; nil if there is no such queue. The
    /// order of the queues: invalidations, dead letters, results, deferrals.
    ///
    /// Results do not wait forever behind invalidations and dead letters, even if the producer has little room: each of
    /// these belongs to a record that keeps its slot until its result is acknowledged. So when all slots are in use, no
    /// more of them come.
    mutating func next(now: Moment) -> OutgoingRecord? {
        if let outgoingRecord = invalidations.next(now: now) { return outgoingRecord }
        if let outgoingRecord = deadLetters.next(now: now) { return outgoingRecord }
        if let outgoingRecord = results.next(now: now) { return outgoingRecord }
        return deferrals.next(now: now)
    }

    /// Removes the first record of the queue for this kind.
    mutating func removeFirst(_ kind: OutgoingRecord.Kind) {
        switch kind {
        case .result, .traceOnly: results.removeFirst()
        case .invalidation: invalidations.removeFirst()
        case .deadLetter: deadLetters.removeFirst()
        case .deferral: deferrals.removeFirst()
        }
    }

    /// Queues a record again after a failure to write it, and pauses its queue.
    mutating func retry(_ outgoingRecord: OutgoingRecord, now: Moment) {
        switch outgoingRecord.kind {
        case .result, .traceOnly: results.retry(outgoingRecord, now: now)
        case .invalidation: invalidations.retry(outgoingRecord, now: now)
        case .deadLetter: deadLetters.retry(outgoingRecord, now: now)
        case .deferral: deferrals.retry(outgoingRecord, now: now)
        }
    }

    /// Queues a record again that Kafka has refused as too large, and pauses its queue.
    mutating func retryInSmallGroup(_ outgoingRecord: OutgoingRecord, now: Moment) {
        switch outgoingRecord.kind {
        case .result, .traceOnly: results.retryInSmallGroup(outgoingRecord, now: now)
        case .invalidation: invalidations.retryInSmallGroup(outgoingRecord, now: now)
        case .deadLetter: deadLetters.retryInSmallGroup(outgoingRecord, now: now)
        case .deferral: deferrals.retryInSmallGroup(outgoingRecord, now: now)
        }
    }

    mutating func endPausesIfDue(now: Moment) {
        invalidations.endPauseIfDue(now: now)
        deadLetters.endPauseIfDue(now: now)
        results.endPauseIfDue(now: now)
        deferrals.endPauseIfDue(now: now)
    }

    /// When the next pause ends, a monotonic time; nil if no record waits for the end of a pause.
    var dueMilliseconds: Int64? {
        var dueMilliseconds = invalidations.dueMilliseconds ?? .max
        dueMilliseconds = min(dueMilliseconds, deadLetters.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, results.dueMilliseconds ?? .max)
        dueMilliseconds = min(dueMilliseconds, deferrals.dueMilliseconds ?? .max)
        return dueMilliseconds == .max ? nil : dueMilliseconds
    }
}
