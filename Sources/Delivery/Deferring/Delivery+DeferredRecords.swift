import LiveActivity
import Numbers

/// Receives commands that come back from the deferred topic, and restores what their deferred records say (`Deferral`):
/// attempts, counts, the end of a pause, a start's claim and more.
extension Delivery {
    /// The longest pause that the configuration allows (`worker.retryMillisecondsMax`). A longer pause in a deferred
    /// record is cut to this time: either a clock was wrong, or it was not a worker that wrote the record.
    private static var pauseMillisecondsMax: Int64 { 3_600_000 }

    /// Returns whether the lane must now ask the Kafka thread to read the deferred commands at once, before they are
    /// due: a blocked pool sends again, or has opened a connection and so perhaps works. Usually true at most once in
    /// each `deferredDelayMilliseconds` (`PoolRecoveryReports`). The shell calls this function after each `advance`.
    public mutating func takeDuePoolRecoveryReport(now: Moment) -> Bool {
        pools.takeDuePoolRecoveryReport(
            intervalMilliseconds: configuration.reloadable.deferredDelayMilliseconds,
            now: now
        )
    }

    /// Receives a command from the deferred topic. Records of the other topics go to `receive(_:now:)`.
    ///
    /// - Parameter droppedFields: the names of the fields that the command's first reader dropped, separated by commas.
    public mutating func receive(
        _ record: IncomingRecord,
        deferred deferral: Deferral,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        guard let partition = noteInLedger(record, now: now) else { return }
        var deferral = deferral
        deferral.correctPauseIfClockWasSetBack(writtenAtWallMilliseconds: record.timestampMilliseconds, now: now)
        let index = records.allocate(
            RecordSlot(
                kind: .invalid,
                ledgerPlace: RecordLedgerPlace(record, partition),
                source: RecordSource(
                    offset: deferral.sourceOffset,
                    partition: deferral.sourcePartition,
                    topic: deferral.sourceTopic
                ),
                times: RecordTimes(
                    receivedAtWallMilliseconds: deferral.receivedAtWallMilliseconds,
                    recordTimestampMilliseconds: deferral.recordTimestampMilliseconds
                ),
                deferral: RecordDeferral(count: max(1, deferral.count))
            )
        )
        guard let value = record.value else {
            return finishAsInvalid(record, index, code: "emptyRecord", detail: "a deferred command has no value")
        }
        receiveCommand(value, index: index, record: record, deferral: deferral, droppedFields: droppedFields, now: now)
    }

    /// Notes that a partition of the deferred topic was assigned to this lane. Lifetime commands of the partitions with
    /// the same number now wait until the lane has read what previous owners deferred, but only for a limited time
    /// (`DeferredBacklog`). If both topics have equally many partitions, the commands of an activity have the same
    /// partition number in both.
    ///
    /// - Parameter startOffset: where the lane begins to read the partition.
    public mutating func awaitDeferredBacklog(_ partitionIndex: UInt32, from startOffset: Int64, now: Moment) {
        guard let partition = partitions[partitionIndex], partition.pointee.topic == .deferred else { return }
        partition.pointee.deferredBacklog = DeferredBacklog(
            startOffset: startOffset,
            waitEndMilliseconds: now.monotonicMilliseconds + configuration.reloadable.deferredDelayMilliseconds
                + DeferralWait.returnLatenessMillisecondsMax
        )
    }

    /// Notes the log's end of a partition of the deferred topic. Only the first call after the assignment has an
    /// effect.
    public mutating func noteDeferredLogEnd(_ partitionIndex: UInt32, _ logEndOffset: Int64) {
        partitions[partitionIndex]?.pointee.deferredBacklog.noteLogEnd(logEndOffset)
    }

    /// Whether a previous owner may have deferred commands of the record's activity that this lane has not read yet.
    func mayHaveUnreadDeferredCommands(before record: RecordIndex, now: Moment) -> Bool {
        guard let number = partitions.partition(of: records[record].ledgerPlace)?.pointee.number else { return false }
        return partitions.contains { partition in
            partition.pointee.topic == .deferred && partition.pointee.number == number
                && partition.pointee.deferredBacklog.mayHaveUnreadCommands(
                    nextOffset: partition.pointee.ledger.nextOffset,
                    now: now
                )
        }
    }

    /// Restores what a command had when it was deferred, such as its pause, its counts and its claim. Also ends the
    /// activity's wait for this command, except for a restart after a lifetime.
    ///
    /// - Parameter activity: the command's activity; nil: the function finds or adds the activity.
    mutating func restore(_ deferral: Deferral, to record: RecordIndex, of activity: ActivityIndex?, now: Moment) {
        let activity = activity ?? findOrAddActivity(of: record)
        let pauseMilliseconds = min(deferral.pauseEndWallMilliseconds - now.wallMilliseconds, Self.pauseMillisecondsMax)
        activities[activity].deferralWait
            .noteReturnedCommand(
                isStart: records[record].isStart,
                isLifetimeEnd: records[record].lifetime.isEnd,
                pauseMilliseconds: pauseMilliseconds,
                now: now
            )
        // A start joins the waiting list now, so newer commands no longer wait for its return. The exception is a
        // restart after a lifetime, which joins the list only after Redis has checked the lifetime
        // (`continueAfterLifetimeCheck`). Newer commands wait until then, or until
        // `DeferredStartWait.untilMilliseconds`.
        if records[record].isStart, !records[record].lifetime.isRestart {
            activities[activity].deferredStartWait.endWait(upTo: records[record].version)
        }
        activities[activity].raiseServiceFailureCount(to: deferral.serviceFailureCount)
        records[record].restore(deferral)
        records[record].deferral.pauseEndWallMilliseconds =
            pauseMilliseconds > 0 ? now.wallMilliseconds + pauseMilliseconds : 0
        if records[record].push.attemptCount > 0 { records[record].push.apnsId = random.nextUUID() }
    }
}

extension Deferral {
    /// Corrects the end of the pause if the clock was set back after the deferred record was written: the command then
    /// pauses for the time that was left when the record was written.
    ///
    /// - Parameter writtenAtWallMilliseconds: Kafka's timestamp of the deferred record; -1: none.
    fileprivate mutating func correctPauseIfClockWasSetBack(writtenAtWallMilliseconds: Int64, now: Moment) {
        guard pauseEndWallMilliseconds > now.wallMilliseconds, writtenAtWallMilliseconds > now.wallMilliseconds else {
            return
        }
        pauseEndWallMilliseconds -= writtenAtWallMilliseconds - now.wallMilliseconds
    }
}

extension RecordSlot {
    /// Takes from the deferred record what concerns only the command, such as its counts, its alert and its claim.
    fileprivate mutating func restore(_ deferral: Deferral) {
        (push.attemptCount, ending.earlierResultCount) = (deferral.attemptCount, deferral.earlierResultCount)
        ending.supersededCount = SupersededCount(commandCount: deferral.supersededCount)
        isReread = deferral.isReread
        if token.mustBeRegistered { token.registeredAtWallMilliseconds = deferral.registeredAtWallMilliseconds }
        if !bodyLayout.alert.isAbsent { alert.sourceVersion = deferral.carriedAlertVersion }
        if deferral.priorityWithoutAlert > 0 { priorityWithoutAlert = deferral.priorityWithoutAlert }
        if deferral.wasAlertRemovedByAge { noteAlertRemovedByAge() }
        guard isStart else { return }
        start.previousClaim = deferral.claim == 0 ? nil : deferral.claim
        // A registration released this start, which was held, and the deferred record has the registration's token. The
        // token is already registered, so the start's next calls must not register it. When the start is finished, the
        // record usually registers the token again, to get the next held start (`planTokenRegistrationIfNeeded`).
        if deferral.isHeldStart, token.mustBeRegistered { (start.isHeld, token.mustBeRegistered) = (true, false) }
    }
}
