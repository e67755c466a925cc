/// The records to produce to one topic, in order. A record that could not be written goes to the end of the queue, and
/// the whole queue pauses for a short time.
///
/// A record that Kafka has refused as too large goes to the front. Kafka limits the size of a batch, and refuses all
/// its records together. So refused records leave the queue in small groups with a pause after each. From its third
/// refusal on, a record leaves alone: if Kafka refuses it then, usually the record itself is too large. (Sometimes the
/// producer adds records of other queues to its batch. So the record is given up only after several such refusals.)
package struct OutgoingRecordQueue<Record: RefusableRecord>: ~Copyable {
    /// How long the queue pauses after a failure: the topic's next record would probably fail too. The queue also
    /// pauses for this time after a group of refused records. By default the producer waits only 50 ms for more records
    /// (`linger.ms`), so no batch has records of two groups.
    private static var pauseMilliseconds: Int64 { 250 }

    private var outgoingRecords: IndexQueue<Record>
    /// `.max` after a group of refused records: the pause begins with the next call of `next`, which knows the time.
    private var pausedUntilMilliseconds: Int64 = .min
    /// How many refused records are at the front of the queue.
    private var refusedRecordCount = 0
    /// How many refused records have left the queue since the last pause between groups.
    private var groupRecordCount = 0
    /// The lowest of the limits of these records (`groupRecordsMax(of:)`); `.max`: none has left.
    private var groupRecordsMax = Int.max

    package init(limit: Int) { outgoingRecords = IndexQueue(limit: limit) }

    package mutating func append(_ outgoingRecord: Record) { outgoingRecords.append(outgoingRecord) }

    /// Returns the first record, which stays first until `removeFirst`; nil if there is none, or during a pause.
    package mutating func next(now: Moment) -> Record? {
        guard pausedUntilMilliseconds > now.monotonicMilliseconds else { return outgoingRecords.first }
        if pausedUntilMilliseconds == .max { pause(now: now) }
        return nil
    }

    package mutating func removeFirst() {
        pausedUntilMilliseconds = .min
        guard let outgoingRecord = outgoingRecords.popFirst() else { preconditionFailure("the queue has a record") }
        if refusedRecordCount > 0 { noteRefusedRecordRemoved(outgoingRecord) }
    }

    private mutating func noteRefusedRecordRemoved(_ outgoingRecord: Record) {
        refusedRecordCount -= 1
        groupRecordCount += 1
        groupRecordsMax = min(groupRecordsMax, Self.groupRecordsMax(of: outgoingRecord))
        if refusedRecordCount > 0, let nextRecord = outgoingRecords.first,
            groupRecordCount < min(groupRecordsMax, Self.groupRecordsMax(of: nextRecord))
        {
            return
        }
        (groupRecordCount, groupRecordsMax) = (0, .max)
        pausedUntilMilliseconds = .max
    }

    /// Queues a record again after a failure to write it, and pauses the queue.
    package mutating func retry(_ outgoingRecord: Record, now: Moment) {
        pause(now: now)
        outgoingRecords.append(outgoingRecord)
    }

    /// Queues a record again that Kafka has refused as too large, now or at an earlier attempt, and pauses the queue.
    package mutating func retryInSmallGroup(_ outgoingRecord: Record, now: Moment) {
        pause(now: now)
        outgoingRecords.prepend(outgoingRecord)
        refusedRecordCount += 1
    }

    /// The maximum number of records in the group of a refused record: 64 after its first refusal, 8 after the second,
    /// then 1.
    private static func groupRecordsMax(of outgoingRecord: Record) -> Int {
        switch outgoingRecord.refusalCount {
        case 0, 1: 64
        case 2: 8
        default: 1
        }
    }

    private mutating func pause(now: Moment) {
        pausedUntilMilliseconds = now.monotonicMilliseconds + Self.pauseMilliseconds
    }

    /// Forgets a pause when it is over. The core calls this whenever time passes, because otherwise only `removeFirst`
    /// forgets the pause, and is not called while the producer has no room. `dueMilliseconds` would then stay in the
    /// past and wake the lane in every iteration.
    @inline(__always)
    package mutating func endPauseIfDue(now: Moment) {
        if pausedUntilMilliseconds <= now.monotonicMilliseconds { pausedUntilMilliseconds = .min }
    }

    /// When the pause ends, a monotonic time; nil if there is no pause, or no record in the queue; `.max` if the pause
    /// has not begun. A pause that is over stays here until ``endPauseIfDue(now:)`` is called.
    package var dueMilliseconds: Int64? {
        outgoingRecords.isEmpty || pausedUntilMilliseconds == .min ? nil : pausedUntilMilliseconds
    }
}

/// A record that Kafka may refuse as too large.
package protocol RefusableRecord: BitwiseCopyable {
    /// How often Kafka has refused this record as too large.
    var refusalCount: UInt8 { get }
}
