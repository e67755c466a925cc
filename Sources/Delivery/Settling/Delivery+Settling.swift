import LiveActivity

/// Finishes records: a record's result is produced, and Redis settles its outcome if Redis must know it. When the
/// result and the calls are acknowledged, the record's offset is settled (``acknowledge(_:)``).
///
/// | to finish | call |
/// | --- | --- |
/// | the current command of an activity, with an outcome | ``finishAndEndTurn(_:_:settlement:reason:now:)`` |
/// | a command that is not current, with an outcome | ``finish(_:_:)`` |
/// | an invalid record | `finishAsInvalid`, which calls `finish` |
/// | a registration or tombstone, without a result | ``settleWithoutResult(_:)`` |
/// | a reread or old record that needs no action | ``settleWithoutAction(_:)`` |
/// | the current command of a revoked partition, without an outcome | ``dropCurrentCommandAndEndTurn(of:now:)`` |
/// | another record of a revoked partition, without an outcome | ``drop(_:now:)`` |
///
/// ``endTurn(of:now:)`` does not finish a command: the activity begins its next command.
extension Delivery {
    /// Gives a command, or an invalid record, its outcome. Queues its result and the calls to Redis, finishes its
    /// rider, and usually frees its token and body.
    ///
    /// The record of a registration may get several outcomes here: its token may release several held commands, one
    /// after another.
    mutating func finish(_ record: RecordIndex, _ outcome: Outcome) {
        records.enterFinished(record, outcome: outcome)
        writeDefaultIdentifierIfMissing(of: record)
        let slot = records.mutableAddress(of: record)
        if slot.pointee.token.mustBeRegistered || slot.pointee.start.isHeld {
            planTokenRegistrationIfNeeded(of: record, outcome)
        }
        queueResult(of: record, outcome)
        settleAndRefundInRedis(record, outcome)
        if policies.limitsLifetimes || slot.pointee.isLifetimeCommand { reportLifetimeEvent(of: record, outcome) }
        finishRiderWithOwnResult(of: record)
        freeTokenAndBodyIfUnneeded(of: record)
    }

    /// Queues the result of a finished record and, if it is invalid, its dead letter. For a reread record that needs no
    /// second result, queues only the export of its trace.
    @inline(__always)
    private mutating func queueResult(of record: RecordIndex, _ outcome: Outcome) {
        let slot = records.address(of: record)
        if slot.pointee.isReread, outcome.effects.contains(.noResultIfReread),
            slot.pointee.ending.supersededCount.commandCount == 0
        {
            queueOutgoingRecord(.traceOnly, record)
        } else {
            queueOutgoingRecord(.result, record)
            if outcome.effects.contains(.deadLetter) { queueOutgoingRecord(.deadLetter, record) }
        }
    }

    /// Queues the calls that settle a finished command in Redis, and the refund of an unsent start's draw. A start is
    /// settled under two keys: its activity's and its device's. A held start leaves the device's key only after its
    /// result is acknowledged (`FollowUps.removeHeldStart`).
    ///
    /// The settlement does not wait until Kafka has the result. The price: if the worker dies when only Redis has the
    /// outcome, no result ever has it. The next owner reads the record again, and its result says `duplicate`, or after
    /// a newer version `superseded` or `ended`.
    @inline(__always)
    private mutating func settleAndRefundInRedis(_ record: RecordIndex, _ outcome: Outcome) {
        let slot = records.mutableAddress(of: record)
        let needsSettlement = slot.pointee.ending.settlement != nil
        if needsSettlement { queueStoreCall(.settle, record) }
        guard slot.pointee.kind == .command, slot.pointee.isStart else { return }
        refundUnsentStart(record)
        if slot.pointee.start.isHeld, outcome.isFinal {
            slot.pointee.ending.followUps.insert(.removeHeldStart)
        } else if needsSettlement {
            queueStoreCall(.settleStart, record)
        }
    }

    /// Queues the refund of a start's draw, if the start has one and no push was attempted.
    private mutating func refundUnsentStart(_ record: RecordIndex) {
        if records[record].noteUnsentDrawRefunded() { queueStoreCall(.refundStart, record) }
    }

    /// Frees the token and the body of a finished command, unless a later step needs them: retiring the token,
    /// registering it, or a call to the timetable.
    @inline(__always)
    private mutating func freeTokenAndBodyIfUnneeded(of record: RecordIndex) {
        let slot = records.address(of: record)
        guard slot.pointee.kind == .command, slot.pointee.push.tokenRetirementRule.isNone,
            !slot.pointee.lifetime.mustKeepCommandInTimetable,
            !slot.pointee.ending.followUps.contains(.registerToken)
        else { return }
        records.freeTokenAndBody(of: record)
    }

    /// Settles a registration or a tombstone that gets no result, or no further result. All its calls must be
    /// acknowledged.
    mutating func settleWithoutResult(_ record: RecordIndex) {
        if records[record].stage == .unregistering { recordsAwaitingStoreCount -= 1 }
        settle(record)
    }

    /// Queues an outgoing record, whose acknowledgement the record then awaits.
    mutating func queueOutgoingRecord(_ kind: OutgoingRecord.Kind, _ record: RecordIndex) {
        records[record].ending.expectAcknowledgement()
        outgoingRecords.append(OutgoingRecord(kind: kind, record: record))
    }

    /// Returns the next record to produce; nil if there is none now. The record stays first until
    /// `removeNextOutgoingRecord`, because the producer may have no room for it.
    public mutating func nextOutgoingRecord(now: Moment) -> OutgoingRecord? {
        outgoingRecords.next(now: now)
    }

    /// Removes the outgoing record that `nextOutgoingRecord` named, because the producer has taken or refused it. After
    /// a refusal, the shell also calls `handleDeliveryReport`.
    public mutating func removeNextOutgoingRecord(_ outgoingRecord: OutgoingRecord) {
        outgoingRecords.removeFirst(outgoingRecord.kind)
    }

    /// Prefetches the slot of a record whose delivery report the shell passes to `handleDeliveryReport` soon.
    public func prefetchRecord(of outgoingRecord: OutgoingRecord) { records.prefetch(outgoingRecord.record) }

    /// Handles the delivery report of an outgoing record: acknowledges it, queues it again, or gives it up. A command
    /// that could not be deferred may return to its activity instead.
    ///
    /// - Returns: whether the record is given up, so that its topic never has it.
    @discardableResult
    public mutating func handleDeliveryReport(
        _ outgoingRecord: OutgoingRecord,
        _ report: OutgoingRecord.KafkaReport,
        now: Moment
    ) -> Bool {
        switch report {
        case .acknowledged:
            acknowledge(outgoingRecord, now: now)
        case .failed where outgoingRecord.kind == .deferral, .tooLarge where outgoingRecord.kind == .deferral:
            if !enqueueAfterFailedDeferral(outgoingRecord.record, now: now) {
                retryDeferral(outgoingRecord, isTooLarge: report == .tooLarge, now: now)
            }
        case .failed where outgoingRecord.refusalCount > 0:
            outgoingRecords.retryInSmallGroup(outgoingRecord, now: now)
        case .failed:
            outgoingRecords.retry(outgoingRecord, now: now)
        case .tooLarge:
            return retryOrGiveUp(outgoingRecord, now: now)
        }
        return false
    }

    /// If Kafka refuses a dead letter as too large, and the record's value has more bytes than this, the value is
    /// probably the reason. Results, invalidations and smaller values fit into a topic unless its limit is very low.
    private static var smallDeadLetterValueBytesMax: Int { 16_384 }

    /// Produces an outgoing record again that Kafka has refused as too large, because other records of its batch may be
    /// the reason. But a dead letter with a large value, or after enough attempts, is written without the value: it
    /// contains more than its record, so it may be too large although the record was not. Any other record is given up
    /// after enough attempts.
    ///
    /// - Returns: whether the record is given up.
    private mutating func retryOrGiveUp(_ outgoingRecord: OutgoingRecord, now: Moment) -> Bool {
        let slot = records.mutableAddress(of: outgoingRecord.record)
        let mayLeaveOutValue =
            outgoingRecord.kind == .deadLetter && slot.pointee.deadLetter.valueForm != .leftOutAsTooLarge
        let hasLargeValue = mayLeaveOutValue && slot.pointee.body.byteCount > Self.smallDeadLetterValueBytesMax
        if !hasLargeValue, let nextAttempt = outgoingRecord.nextAttempt {
            outgoingRecords.retryInSmallGroup(nextAttempt, now: now)
            return false
        }
        guard mayLeaveOutValue else {
            acknowledge(outgoingRecord, now: now)
            return true
        }
        slot.pointee.deadLetter.valueForm = .leftOutAsTooLarge
        // The dead letter is now another record, so its refusals do not count any more.
        outgoingRecords.append(OutgoingRecord(kind: .deadLetter, record: outgoingRecord.record))
        return false
    }

    /// Produces a deferred record again. It is never given up, so after enough refusals of its size it goes behind the
    /// others, and its refusals count from zero.
    private mutating func retryDeferral(_ outgoingRecord: OutgoingRecord, isTooLarge: Bool, now: Moment) {
        if isTooLarge, let nextAttempt = outgoingRecord.nextAttempt {
            outgoingRecords.retryInSmallGroup(nextAttempt, now: now)
        } else {
            outgoingRecords.retry(OutgoingRecord(kind: .deferral, record: outgoingRecord.record), now: now)
        }
    }

    /// Notes that Kafka has an outgoing record, or that the record is given up.
    @inline(__always)
    private mutating func acknowledge(_ outgoingRecord: OutgoingRecord, now: Moment) {
        guard outgoingRecord.kind == .invalidation else { return acknowledge(outgoingRecord.record) }
        continueAfterInvalidation(outgoingRecord.record, now: now)
    }

    /// Notes that one call, outgoing record or change of audiences is acknowledged. After the last acknowledgement, a
    /// record that waits only for acknowledgements continues here, and its slot may be freed. A command whose dead
    /// token Redis has retired is then held for the next token. (R9)
    mutating func acknowledge(_ record: RecordIndex) {
        let slot = records.mutableAddress(of: record)
        slot.pointee.ending.acknowledge()
        guard slot.pointee.ending.isAcknowledged else { return }
        if slot.pointee.stage.awaitsAcknowledgements {
            continueAfterAcknowledgements(record)
        } else if !slot.pointee.push.tokenRetirementRule.isNone {
            holdForNextToken(record)
        }
    }

    /// Begins the next follow-up of a record, or ends the record. Called when a record that waits only for
    /// acknowledgements (`RecordStage.awaitsAcknowledgements`) has the last one.
    mutating func continueAfterAcknowledgements(_ record: RecordIndex) {
        let (stage, followUps) = (records[record].stage, records[record].ending.followUps)
        if stage == .refunding {
            records.enter(record, .dropped)
            records.free(record)
        } else if stage == .finished, followUps.contains(.reportLifetimeEvent) {
            records[record].ending.followUps.remove(.reportLifetimeEvent)
            queueStoreCall(.reportLifetimeEvent, record)
        } else if stage == .finished, followUps.contains(.removeHeldStart) {
            records.enter(record, .settlingHeldStart)
            queueStoreCall(.settleStart, record)
        } else if stage == .deferring {
            // The deferred record now has the rider's alert, so the rider needs no push of its own.
            finishRiderWithOwnResult(of: record)
            settle(record)
        } else if followUps.contains(.registerToken) {
            registerToken(of: record)
        } else {
            settle(record)
        }
    }

    /// Settles a record's offset, unless the assignment in which it was read has ended, and frees its slot. (R8)
    private mutating func settle(_ record: RecordIndex) {
        let slot = records.address(of: record)
        precondition(slot.pointee.ending.isAcknowledged)
        records.enter(record, .settled)
        if let partition = partitions.partition(of: slot.pointee.ledgerPlace) {
            partition.pointee.ledger.settle(
                slot.pointee.ledgerPlace.offset,
                isLeftOutOfMetadata: slot.pointee.ending.isLeftOutOfMetadata
            )
            partition.pointee.unsettledRecordCount -= 1
        }
        records.free(record)
    }

    /// Drops a record without an outcome: its partition is revoked, and the next owner reads it again. All its calls
    /// and outgoing records must be acknowledged. The draw of an unsent start is first refunded, in the stage
    /// `refunding`. `requeueRider` decides what becomes of the record's rider. (R8)
    mutating func drop(_ record: RecordIndex, now: Moment) {
        let slot = records.address(of: record)
        precondition(slot.pointee.ending.isAcknowledged)
        requeueRider(of: record, now: now)
        partitions.partition(of: slot.pointee.ledgerPlace)?.pointee
            .unsettledRecordCount -= 1
        refundUnsentStart(record)
        let awaitsRefund = !slot.pointee.ending.isAcknowledged
        guard !awaitsRefund else { return records.enter(record, .refunding) }
        records.enter(record, .dropped)
        records.free(record)
    }
}
