/// The records to produce to one topic, in order. A record that could not be written goes to the end of the queue, and
/// the whole queue pauses for a short time.
package struct OutgoingRecordQueue<Record: BitwiseCopyable>: ~Copyable {
    /// How long the queue pauses after a failure: the topic's next record would probably fail too.
    private static var failurePauseMilliseconds: Int64 { 250 }

    private var outgoingRecords: IndexQueue<Record>
    private var pausedUntilMilliseconds: Int64 = .min

    package init(limit: Int) { outgoingRecords = IndexQueue(limit: limit) }

    package mutating func append(_ outgoingRecord: Record) { outgoingRecords.append(outgoingRecord) }

    /// Returns the first record, which stays first until `removeFirst`; nil if there is none, or during the pause after
    /// a failure.
    package func next(now: Moment) -> Record? {
        pausedUntilMilliseconds <= now.monotonicMilliseconds ? outgoingRecords.first : nil
    }

    package mutating func removeFirst() {
        pausedUntilMilliseconds = .min
        precondition(outgoingRecords.popFirst() != nil)
    }

    /// Queues a record again after a failure to write it, and pauses the queue.
    package mutating func retry(_ outgoingRecord: Record, now: Moment) {
        pausedUntilMilliseconds = now.monotonicMilliseconds + Self.failurePauseMilliseconds
        outgoingRecords.append(outgoingRecord)
    }

    /// Forgets the pause after a failure when it is over. The core calls this whenever time passes, because otherwise
    /// only `removeFirst` forgets the pause, and is not called while the producer has no room. `dueMilliseconds` would
    /// then stay in the past and wake the lane in every iteration.
    @inline(__always)
    package mutating func endPauseIfDue(now: Moment) {
        if pausedUntilMilliseconds <= now.monotonicMilliseconds { pausedUntilMilliseconds = .min }
    }

    /// When the pause after a failure ends, a monotonic time; nil if there is no pause, or no record in the queue. A
    /// pause that is over stays here until ``endPauseIfDue(now:)`` is called.
    package var dueMilliseconds: Int64? {
        outgoingRecords.isEmpty || pausedUntilMilliseconds == .min ? nil : pausedUntilMilliseconds
    }
}
