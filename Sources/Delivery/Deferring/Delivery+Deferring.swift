import LiveActivity
import Numbers

/// Commands that cannot be sent soon leave their partition (design §6): their record goes to the deferred topic, and when that is
/// acknowledged its offset is settled, without a result. It is read again after a while, and is then an ordinary command.
///
/// A command is deferred when it has been here for `deferAfterMilliseconds` and there is no prospect of its being sent within the
/// `deferredDelayMilliseconds` after which it would be read again: its pool sends nothing, or less than waits for it (`PoolProgress`); its
/// activity rests for longer; or APNs has just not taken it. One that comes out of the deferred topic, and what a lane holds above half of
/// its records or of their bytes, is deferred sooner.
///
/// A push that APNs did not take pauses, by the faults of its activity, for minutes in the end. The pause and the faults go along. All records
/// of a partition wait for the same time, so that none waits for one before it: a command whose pause is longer is deferred again.
///
/// What must hold:
/// - what is written is all that the next reading needs (`Deferral`): a start's claim, which gives way to the next reading's; the token that came
///   with the command; what it counts; the alert that it carries, in its body. Its rider is finished when that is acknowledged;
/// - of an activity one deferred command is under way at a time while its pool is blocked: a newer state waits here for the older one to
///   come back, replaces it and carries its alert. Else an outage would leave as many copies as there were states;
/// - an alert that was deferred is not overtaken by a state without one, which would take its place on the phone without ringing.
///
/// What waits for Redis is not deferred: then nothing can be decided of any command.
extension Delivery {
    /// How often what waits for a pool is looked through.
    private static var lookMilliseconds: Int64 { 500 }
    /// How long a command has to be sent that was deferred before, or that came to a lane which holds much.
    private static var hurriedMilliseconds: Int64 { 1_000 }
    /// Another worker's clock may be wrong: no pause is longer than the longest that can be configured.
    private static var pauseMillisecondsMax: Int64 { 3_600_000 }

    /// Hands a command, which is in no list any more, to the deferred topic.
    private mutating func deferCommand(_ record: UInt32, _ cause: DeferralCause, now: Moment) {
        records.completeBody(of: record)
        // An admission may have raised the timestamp: the command must come back as its own version.
        records.setTimestamp(records[record].version.timestamp, inBodyOf: record)
        records[record].deferral.note(cause)
        records[record].deferral.serviceFaults = activities[records[record].activity].serviceFaults
        expectReturn(of: record, now: now)
        records.enter(.deferring, record)
        produceDeferral(record)
        if records[record].refundDrawForDeferral() { call(.refundStart, record) }
    }

    /// The activity's newer states know that an older one comes back. A lane with many activities forgets: then both are admitted, in order.
    private mutating func expectReturn(of record: UInt32, now: Moment) {
        guard !records[record].isStart, activities.count <= records.limit else { return }
        let delay = configuration.deferredDelayMilliseconds + DeferredReturn.slackMilliseconds
        activities[records[record].activity].deferred
            .expect(
                until: now.monotonicMilliseconds + delay,
                alert: records.alertVersion(of: record),
                now: now
            )
    }

    /// The same of the current command.
    /// - Parameter pauseMilliseconds: how long its push is not to be tried again.
    mutating func deferCurrent(
        of activity: UInt32,
        _ cause: DeferralCause,
        pauseMilliseconds: Int64 = 0,
        now: Moment
    ) {
        let pauseEnd = pauseMilliseconds > 0 ? now.wallMilliseconds + pauseMilliseconds : 0
        records[activities[activity].current].deferral.pauseEndMilliseconds = pauseEnd
        let (record, heldCredit) = (activities[activity].current, activities[activity].phase.holdsCredit)
        activities.enter(.idle, activity)
        deferCommand(record, cause, now: now)
        if heldCredit { returnCredit(of: activity, now: now) }
        begin(activity, now: now)
    }

    /// Whether a command has been here for so long that it is deferred, if it cannot be sent soon.
    func isOverdue(_ record: UInt32, now: Moment) -> Bool {
        let slot = records.address(of: record)
        guard !isRevoked(record) else { return false }
        let isHurried =
            slot.pointee.deferral.count > 0 || records.count > records.limit / 2
            || records.blockBytes > configuration.blockBytesMax / 2
        let patience = min(configuration.deferAfterMilliseconds, isHurried ? Self.hurriedMilliseconds : .max)
        guard let partition = partitions.current(slot.pointee.partition, epoch: slot.pointee.epoch),
            let received = partition.pointee.receipts.milliseconds(of: slot.pointee.offset)
        else { return false }
        return received <= now.monotonicMilliseconds - patience
    }

    /// Whether a start that was admitted goes to its partition's next owner by way of the deferred topic, with its claim: its pool sends
    /// nothing, so it may be here for longer than the partition.
    func isHandedOn(_ record: UInt32) -> Bool {
        records[record].isStart && isRevoked(record) && pools.isBlocked(PushLine(records[record].pool))
    }

    /// The deferred topic has not taken a command. If its pool is back, it waits here once more: else nobody would send it before the topic takes
    /// it, which may be missing. A start has refunded its draw for its next reading, and is produced again.
    /// - Returns: false if it is to be produced again.
    mutating func takeBackDeferral(_ record: UInt32, now: Moment) -> Bool {
        guard !records[record].isStart, !isRevoked(record),
            records[record].deferral.pauseMilliseconds(now: now) == 0
        else { return false }
        let activity = activityOf(record)
        guard !pools.isBlocked(pools.line(of: activities[activity].application, activities[activity].line)) else {
            if activities[activity].phase == .idle { activities.remove(activity) }
            return false
        }
        records[record].acknowledge()
        precondition(records[record].isAcknowledged, "a deferred command that is no start has nothing else outstanding")
        activities[activity].deferred = DeferredReturn()
        enqueue(record, of: activity, now: now)
        return true
    }

    // MARK: - What rests

    /// Defers what waits for an activity that rests for long, or whose push pauses for long.
    mutating func deferResting(_ activity: UInt32, now: Moment) {
        let isResting = isLong(activities[activity].restsUntilMilliseconds - now.monotonicMilliseconds)
        guard isResting || activities[activity].deferred.isPause else { return }
        while let record = activities[activity].waiting.head,
            isResting || isLong(records[record].deferral.pauseMilliseconds(now: now)),
            isOverdue(record, now: now)
        {
            _ = activities[activity].waiting.popFirst(in: &records)
            let awaitsStartBudget = if case .awaited = records[record].startDraw { true } else { false }
            deferCommand(record, !isResting ? .retry : awaitsStartBudget ? .startBudget : .pace, now: now)
        }
    }

    /// Whether a wait is made in the deferred topic.
    @inline(__always)
    func isLong(_ milliseconds: Int64) -> Bool { milliseconds > configuration.deferredDelayMilliseconds }

    /// Whether what waits for an activity is deferred when it is overdue.
    @inline(__always)
    func restsLong(_ activity: UInt32, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        return isLong(slot.pointee.restsUntilMilliseconds - now.monotonicMilliseconds)
            || slot.pointee.deferred.isPause && pausesLong(activity, now: now)
    }

    private func pausesLong(_ activity: UInt32, now: Moment) -> Bool {
        guard let head = activities[activity].waiting.head else { return false }
        return isLong(records[head].deferral.pauseMilliseconds(now: now))
    }

    /// Whether an activity's next command waits for a deferred one to come back, or came back and pauses.
    func awaitsDeferred(_ activity: UInt32, now: Moment) -> Bool {
        let slot = activities.address(of: activity)
        guard slot.pointee.deferred.isExpected(now: now), let head = slot.pointee.waiting.head else { return false }
        if slot.pointee.deferred.isPause { return records[head].deferral.pauseMilliseconds(now: now) > 0 }
        guard !records[head].isStart else { return false }
        if pools.isBlocked(pools.line(of: slot.pointee.application, slot.pointee.line)) { return true }
        guard let deferred = slot.pointee.deferred.alert else { return false }
        return records.alertVersion(of: head).map { $0 < deferred } ?? true
    }

    // MARK: - What waits for a pool

    /// When `deferBlocked` next has something to do; nil while nothing waits for a pool.
    var deferralDueMilliseconds: Int64? {
        pools.queuedCount > 0 ? deferralLookMilliseconds : nil
    }

    /// Looks through what waits for each pool: ends what has expired or was overtaken, and defers what will not be sent soon.
    mutating func deferBlocked(now: Moment) {
        guard pools.queuedCount > 0, deferralLookMilliseconds <= now.monotonicMilliseconds else { return }
        deferralLookMilliseconds = now.monotonicMilliseconds + Self.lookMilliseconds
        let silenceMilliseconds = min(OutageWatch.outageMilliseconds, configuration.deferAfterMilliseconds / 2)
        let isStoreAway = storeWatch.isSilent(forMilliseconds: silenceMilliseconds, now: now)
        for line in pools.lines {
            if isStoreAway {
                pools.beginAgain(line, now: now)
            } else {
                pools.look(
                    line,
                    patienceMilliseconds: configuration.deferAfterMilliseconds,
                    delayMilliseconds: configuration.deferredDelayMilliseconds,
                    now: now
                )
            }
            lookThroughReady(line, now: now)
            if pools.isBlocked(line), !isStoreAway { lookThroughEligible(line, now: now) }
            // What is left from when production was blocked has nobody who returns a credit.
            beginEligible(of: line, now: now)
        }
    }

    private mutating func lookThroughReady(_ line: PushLine, now: Moment) {
        let isBlocked = pools.isBlocked(line)
        for _ in 0..<pools.readyCount(of: line) {
            guard let record = pools.popReady(of: line) else { return }
            let activity = activity(ofCurrent: record, in: .ready)
            if records[record].isPushExpired(by: policies, now: now) {
                finishCurrent(record, .expired, settlement: .notShown, now: now)
            } else if isOvertaken(activity), givesWay(record, of: activity, now: now) {
                overtakeCurrent(of: activity, settlement: .notShown, now: now)
            } else if isBlocked, isLeftToNextOwner(record) {
                dropCurrent(of: activity, now: now)
            } else if isBlocked, records[record].deferral.isSeenReady,
                isOverdue(record, now: now) || isHandedOn(record)
            {
                deferCurrent(of: activity, .pool, now: now)
            } else {
                // Each push is offered to its pool before it is deferred: it may be what shows that the pool is back. Not while the lane
                // reads ahead, since nothing is handed out then.
                records[record].deferral.isSeenReady = !pools.watch(line).pointee.isReading
                pools.appendReady(record, to: line, now: now)
            }
        }
    }

    private mutating func lookThroughEligible(_ line: PushLine, now: Moment) {
        for _ in 0..<pools.eligibleCount(of: line) {
            guard let activity = pools.popEligible(of: line) else { return }
            let current = activities[activity].current
            if current != .max {
                guard isOverdue(current, now: now) || isHandedOn(current) else {
                    pools.appendEligible(activity, of: line, now: now)
                    continue
                }
                deferCurrent(of: activity, .retry, now: now)
                continue
            }
            dropStale(activity, now: now)
            // It may be of the other pool.
            if activities[activity].line == .unsure, pools.line(of: line.application, .unsure) != line {
                activities.enter(.idle, activity)
                begin(activity, now: now)
                continue
            }
            while let record = activities[activity].waiting.head, isOverdue(record, now: now) {
                _ = activities[activity].waiting.popFirst(in: &records)
                deferCommand(record, .pool, now: now)
            }
            guard activities[activity].waiting.isEmpty else {
                pools.appendEligible(activity, of: line, now: now)
                continue
            }
            activities.enter(.idle, activity)
            begin(activity, now: now)
        }
    }

    // MARK: - Reading them again

    /// Whether a pool that sent nothing, or too little, sends again since this was asked last: what was deferred meanwhile need not wait until
    /// it is due.
    public mutating func takePoolReturn() -> Bool { pools.takeReturn() }

    /// Receives a command that was deferred, as `receive(_:now:)` does others.
    public mutating func receive(_ record: IncomingRecord, deferred deferral: Deferral, now: Moment) {
        guard let partition = accept(record, now: now) else { return }
        let index = records.allocate(
            RecordSlot(
                kind: .invalid,
                topic: deferral.topic,
                partition: record.partition,
                epoch: partition.pointee.epoch,
                offset: record.offset,
                sourcePartition: deferral.partition,
                sourceOffset: deferral.offset,
                deferral: DeferralMark(count: max(1, deferral.count)),
                recordMilliseconds: deferral.recordMilliseconds,
                receivedMilliseconds: deferral.receivedMilliseconds
            )
        )
        guard let value = record.value else {
            return reject(record, index, code: "emptyRecord", detail: "a deferred command has no value")
        }
        receiveCommand(value, index: index, record: record, deferral: deferral, now: now)
    }

    /// Gives a deferred command what it had when it was deferred.
    mutating func restore(_ deferral: Deferral, to record: UInt32, of activity: UInt32?, now: Moment) {
        let activity = activity ?? activityOf(record)
        let pause = min(deferral.pauseEndMilliseconds - now.wallMilliseconds, Self.pauseMillisecondsMax)
        activities[activity].deferred =
            pause > 0 ? DeferredReturn(pauseUntil: now.monotonicMilliseconds + pause) : DeferredReturn()
        activities[activity].recall(serviceFaults: deferral.serviceFaults)
        records[record].restore(deferral)
        records[record].deferral.pauseEndMilliseconds = pause > 0 ? now.wallMilliseconds + pause : 0
        if records[record].attempts > 0 { records[record].apnsIdentifier = randomness.nextUniqueIdentifier() }
    }
}

extension RecordSlot {
    /// A start that is deferred draws again when it is read again, so it refunds its draw even if it was tried.
    /// - Returns: false if there is nothing to refund.
    fileprivate mutating func refundDrawForDeferral() -> Bool {
        guard case .drawn(let draw) = startDraw else { return false }
        startDraw = .refunded(draw)
        return true
    }

    fileprivate mutating func restore(_ deferral: Deferral) {
        (attempts, resultsBefore) = (deferral.attempts, deferral.resultsBefore)
        superseded = SupersededCount(commands: deferral.superseded)
        isReadAgain = deferral.isReadAgain
        if suppliesToken { registeredAtMilliseconds = deferral.registeredAtMilliseconds }
        if !layout.alert.isAbsent { foreignAlert = deferral.alertVersion }
        if deferral.statePriority > 0 { statePriority = deferral.statePriority }
        if deferral.isAlertExpired { noteExpiredAlert() }
        guard isStart else { return }
        formerClaim = deferral.claim
        // It was held for the token that comes with it.
        if deferral.isHeldStart, suppliesToken { (isHeldStart, suppliesToken) = (true, false) }
    }
}
