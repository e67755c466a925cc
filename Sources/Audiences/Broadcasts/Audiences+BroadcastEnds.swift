import Delivery
import LiveActivity

/// How broadcasts are finished. When a broadcast has its outcome, Kafka gets the result, and the store adds the
/// broadcast to its command's counts. Then the broadcast's fan-out record settles. If the producer manages the channel,
/// the store is not called, because it keeps no counts of the command.
///
/// A range version (``RangeVersionSlot``) is finished in similar steps (`Audiences+Finishing`). The code is separate,
/// because a broadcast has no members and no round.
extension Audiences {
    /// Gives a broadcast its outcome. If it carried the alert of an older broadcast, the older broadcast is finished
    /// too, as superseded.
    mutating func finishBroadcast(_ broadcast: BroadcastIndex, _ outcome: MemberOutcome, now: Moment) {
        let rider = broadcasts[broadcast].rider
        if rider != .null {
            broadcasts[broadcast].rider = .null
            finishBroadcast(rider, .superseded, now: now)
        }
        broadcasts[broadcast].enter(.finishing)
        broadcasts[broadcast].outcome = outcome
        broadcasts[broadcast].unacknowledgedCount = 1
        outgoingRecords.append(.broadcastResult(broadcast))
        // If the producer manages the channel, the command has only this broadcast, so the store has no counts to add
        // up.
        guard !channels[broadcasts[broadcast].channel].isManagedByProducer else { return }
        broadcasts[broadcast].unacknowledgedCount += 1
        storeQueue.append(.finishBroadcast(broadcast))
    }

    func makeFinishOperation(forBroadcast broadcast: BroadcastIndex) -> AudienceCall<UnsafeRawBufferPointer>.Operation {
        let slot = broadcasts[broadcast]
        let finishedBroadcast = FinishedBroadcast(
            environment: channels[slot.channel].key.environment,
            rangeCount: slot.record.instruction.grant.rangeCount,
            broadcastCount: slot.record.instruction.grant.broadcastCount
        )
        return .finishBroadcast(finishedBroadcast, version: slot.record.version, slot.outcome, slot.times)
    }

    /// Called when the store has added the broadcast to its command's counts, or has refused the call. If all ranges
    /// and broadcasts of the command are finished, the reply has the command's totals, and Kafka also gets the result
    /// of the whole command.
    mutating func handleFinishBroadcastReply(_ broadcast: BroadcastIndex, _ reply: Reply?, now: Moment) {
        if let totals = reply.flatMap(AudienceTotals.init) {
            broadcasts[broadcast].totals = totals
            broadcasts[broadcast].unacknowledgedCount += 1
            outgoingRecords.append(.commandResultAfterBroadcast(broadcast))
        }
        callOrRecordAcknowledged(of: broadcast, now: now)
    }

    /// Called when the store or Kafka has acknowledged one call or record of a finishing broadcast. After the last
    /// acknowledgement, the broadcast is settled as soon as the channel's older broadcasts are settled.
    mutating func callOrRecordAcknowledged(of broadcast: BroadcastIndex, now: Moment) {
        broadcasts[broadcast].unacknowledgedCount -= 1
        guard broadcasts[broadcast].unacknowledgedCount == 0 else { return }
        broadcasts[broadcast].enter(.finished)
        settleFinishedBroadcasts(of: broadcasts[broadcast].channel, now: now)
    }

    /// Settles and frees the channel's finished broadcasts, oldest first, up to the first one that is not finished.
    /// Then frees the channel's slot if nothing needs it.
    mutating func settleFinishedBroadcasts(of channel: ChannelIndex, now: Moment) {
        while case let oldest = channels[channel].broadcasts.first, oldest != .null,
            broadcasts[oldest].phase == .finished
        {
            let slot = broadcasts[oldest]
            if let partition = partitions.partition(
                slot.record.partitionIndex,
                assignmentEpoch: slot.record.assignmentEpoch
            ) {
                partition.pointee.ledger.settle(slot.record.offset)
                partition.pointee.unsettledRecordCount -= 1
            }
            removeAndFree(broadcast: oldest)
        }
        _ = freeSlotIfUnused(channel: channel, now: now)
    }

    func earlierBroadcast(ofSameVersionAs broadcast: BroadcastIndex) -> BroadcastIndex? {
        var earlier = channels[broadcasts[broadcast].channel].broadcasts.first
        while earlier != broadcast {
            if broadcasts[earlier].record.version == broadcasts[broadcast].record.version { return earlier }
            earlier = broadcasts[earlier].nextInList
        }
        return nil
    }

    /// Settles the record of a broadcast without a result, because an earlier broadcast of the same version writes the
    /// result or has written it. The record settles after the channel's older ones.
    mutating func settleWithoutResult(_ broadcast: BroadcastIndex, now: Moment) {
        broadcasts[broadcast].enter(.finished)
        settleFinishedBroadcasts(of: broadcasts[broadcast].channel, now: now)
    }

    /// Settles the record of `broadcast` without a result, because `earlier` has the same version and writes the
    /// result.
    ///
    /// Exception: the partition from which the record of `earlier` came is released, so this record cannot settle any
    /// more. Then `earlier` takes over the partition and offset of `broadcast`, and `broadcast` is freed. This may
    /// happen after partitions were added to the fan-out topic, because a channel may then have a record of another
    /// partition than its own.
    mutating func settleDuplicate(_ broadcast: BroadcastIndex, of earlier: BroadcastIndex, now: Moment) {
        guard isPartitionReleased(of: broadcasts[earlier].record) else {
            return settleWithoutResult(broadcast, now: now)
        }
        broadcasts[earlier].record.copyPartitionAndOffset(of: broadcasts[broadcast].record)
        removeAndFree(broadcast: broadcast)
    }

    /// Drops a broadcast, and the older broadcast whose alert it carries, without results. The records of both are read
    /// again, by this lane or by the partition's next owner. Frees the channel's slot if nothing needs it any more.
    mutating func dropBroadcast(_ broadcast: BroadcastIndex, now: Moment) {
        let slot = broadcasts[broadcast]
        if slot.rider != .null {
            broadcasts[broadcast].rider = .null
            dropBroadcast(slot.rider, now: now)
        }
        noteDropped(slot.record, ofApp: channels[slot.channel].key.appIndex)
        removeAndFree(broadcast: broadcast)
        // A channel's broadcasts settle in order, so finished ones may have waited for the dropped one. Settle them
        // now.
        settleFinishedBroadcasts(of: slot.channel, now: now)
    }

    private mutating func removeAndFree(broadcast: BroadcastIndex) {
        let channel = broadcasts[broadcast].channel
        channels[channel].broadcasts.remove(broadcast, in: &broadcasts)
        let appIndex = Int(channels[channel].key.appIndex)
        addFanoutRecordBytes(-broadcasts[broadcast].occupiedBytes, ofApp: appIndex)
        apps[appIndex].fanoutRecordCount -= 1
        broadcasts[broadcast].freeBytes()
        broadcasts.free(broadcast)
    }
}
