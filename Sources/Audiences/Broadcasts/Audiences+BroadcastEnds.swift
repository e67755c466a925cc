import Delivery
import LiveActivity

/// How broadcasts are finished. When a broadcast has its outcome, Kafka gets the result, and the store adds the
/// broadcast to its command's counts. Then the broadcast's fan-out record settles. If the producer manages the channel,
/// the store has no counts.
///
/// A range version (``RangeVersionSlot``) is finished in similar steps (`Audiences+Finishing`). The code is separate,
/// because a broadcast has no members and no round.
extension Audiences {
    /// Gives a broadcast its outcome. If the broadcast carried the alert of an older one, the older one is finished
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
        // If the producer manages the channel, this broadcast is the whole command, so the store has no counts to add
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
    /// and broadcasts of the command are finished, the reply has the command's totals.
    mutating func handleFinishBroadcastReply(_ broadcast: BroadcastIndex, _ reply: Reply?, now: Moment) {
        if let totals = reply.flatMap(AudienceTotals.init) {
            broadcasts[broadcast].totals = totals
            broadcasts[broadcast].unacknowledgedCount += 1
            outgoingRecords.append(.commandResultAfterBroadcast(broadcast))
        }
        callOrRecordAcknowledged(of: broadcast, now: now)
    }

    /// Called when the store or Kafka has acknowledged one call or record of a finishing broadcast. After the last one,
    /// the broadcast settles behind the channel's older broadcasts.
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

    /// Returns the channel's earlier broadcast with the same version; nil if there is none.
    func earlierBroadcast(ofSameVersionAs broadcast: BroadcastIndex) -> BroadcastIndex? {
        var earlier = channels[broadcasts[broadcast].channel].broadcasts.first
        while earlier != broadcast {
            if broadcasts[earlier].record.version == broadcasts[broadcast].record.version { return earlier }
            earlier = broadcasts[earlier].nextInList
        }
        return nil
    }

    /// Settles the record of a broadcast without a result: an earlier broadcast has the same version and writes the
    /// result.
    mutating func settleWithoutResult(_ broadcast: BroadcastIndex, now: Moment) {
        broadcasts[broadcast].enter(.finished)
        settleFinishedBroadcasts(of: broadcasts[broadcast].channel, now: now)
    }

    /// Settles the record of `broadcast` without a result, because `earlier` has the same version and writes the
    /// result.
    ///
    /// Exception: the partition of `earlier` has been released, so its record cannot settle any more. Then `earlier`
    /// takes over the partition and offset of `broadcast`, and `broadcast` is freed.
    ///
    /// Example: partitions were added to the fan-out topic, so a channel of partition 1 has `earlier` from partition 3,
    /// offset 5.
    /// 1. Partition 3 is released, and later assigned to this lane again. The lane reads offset 5 again, as
    ///    `broadcast`.
    /// 2. `earlier` takes over the new assignment of partition 3, and offset 5.
    /// 3. When `earlier` ends, offset 5 settles. If `earlier` is dropped, the lane reads offset 5 again.
    mutating func settleDuplicate(_ broadcast: BroadcastIndex, of earlier: BroadcastIndex, now: Moment) {
        guard isPartitionReleased(of: broadcasts[earlier].record) else {
            return settleWithoutResult(broadcast, now: now)
        }
        broadcasts[earlier].record.copyPartitionAndOffset(of: broadcasts[broadcast].record)
        removeAndFree(broadcast: broadcast)
    }

    /// Drops a broadcast, and the older broadcast whose alert it carries, without results. Both records are read again.
    mutating func dropBroadcast(_ broadcast: BroadcastIndex, now: Moment) {
        let slot = broadcasts[broadcast]
        if slot.rider != .null {
            broadcasts[broadcast].rider = .null
            dropBroadcast(slot.rider, now: now)
        }
        noteDropped(slot.record, ofApp: channels[slot.channel].key.appIndex)
        removeAndFree(broadcast: broadcast)
        // A channel's broadcasts settle in order, so finished ones may have waited for this one. Settle them now.
        settleFinishedBroadcasts(of: slot.channel, now: now)
    }

    /// Removes a broadcast from its channel's list, and frees it.
    private mutating func removeAndFree(broadcast: BroadcastIndex) {
        let channel = broadcasts[broadcast].channel
        channels[channel].broadcasts.remove(broadcast, in: &broadcasts)
        let appIndex = Int(channels[channel].key.appIndex)
        addFanoutRecordBytes(-broadcasts[broadcast].occupiedBytes, ofApp: appIndex)
        apps[appIndex].fanoutRecordCount -= 1
        broadcasts[broadcast].freeBytes()
        broadcasts.free(broadcast)
    }

    // MARK: - Channels and partitions

    /// Frees the channel's slot if no broadcast needs it. While the channel's partition is assigned, the channel must
    /// also have been idle for ``ChannelPace/idleMillisecondsMax``.
    ///
    /// - Returns: whether the channel was freed.
    mutating func freeSlotIfUnused(channel: ChannelIndex, now: Moment) -> Bool {
        let slot = channels[channel]
        guard slot.broadcasts.isEmpty, !slot.isQueued else { return false }
        guard slot.phase != .running || idleEndMilliseconds(of: channel) <= now.monotonicMilliseconds else {
            return false
        }
        free(channel: channel)
        return true
    }

    private mutating func free(channel: ChannelIndex) {
        let (key, identifier) = (channels[channel].key, channels[channel].audienceOrChannelIdentifier)
        if channelsByKey[key] == channel { channelsByKey[key] = nil }
        identifier.free()
        channels.free(channel)
    }

    /// The maximum number of idle channels that ``evictIdleChannel(now:)`` compares, so that its search stays short.
    private static var comparedIdleChannelsMax: Int { 16 }

    /// Frees the slot of an idle channel for a new channel. Returns whether a slot was freed. If idle channels always
    /// kept their slots, one app with many channels could block the broadcasts of all apps. (R30)
    ///
    /// The search continues where the last one ended. Of the first `comparedIdleChannelsMax` idle channels that it
    /// finds, it frees the one that has been idle longest. It leaves out a channel whose spacing has not passed yet,
    /// because only the slot knows when the next push may be sent. (R31)
    mutating func evictIdleChannel(now: Moment) -> Bool {
        var longestIdleChannel: ChannelIndex?
        var comparedChannelCount = 0
        for _ in 0..<channels.indexBound {
            let nextRawIndex = evictionSearchIndex.rawValue + 1
            evictionSearchIndex = ChannelIndex(rawValue: nextRawIndex < channels.indexBound ? nextRawIndex : 0)
            guard channels.isInUse(evictionSearchIndex), case let channel = channels.address(of: evictionSearchIndex),
                channel.pointee.broadcasts.isEmpty, !channel.pointee.isQueued,
                channel.pointee.pausedUntilMilliseconds <= now.monotonicMilliseconds
            else { continue }
            comparedChannelCount += 1
            let earliestPauseEndMilliseconds = longestIdleChannel.map { channels[$0].pausedUntilMilliseconds } ?? .max
            if channel.pointee.pausedUntilMilliseconds < earliestPauseEndMilliseconds {
                longestIdleChannel = evictionSearchIndex
            }
            if comparedChannelCount == Self.comparedIdleChannelsMax { break }
        }
        guard let longestIdleChannel else { return false }
        free(channel: longestIdleChannel)
        return true
    }

    /// Returns when the slot of an idle channel is freed (monotonic milliseconds), if the channel stays idle and no new
    /// channel needs the slot earlier.
    func idleEndMilliseconds(of channel: ChannelIndex) -> Int64 {
        let pauseEndMilliseconds = channels[channel].pausedUntilMilliseconds
        return pauseEndMilliseconds > .max - ChannelPace.idleMillisecondsMax
            ? .max : max(0, pauseEndMilliseconds) + ChannelPace.idleMillisecondsMax
    }

    /// Stops the broadcasts to the channels of a partition that is being revoked or released. Drops the broadcasts that
    /// wait, because the partition's next owner reads their records again.
    mutating func stopChannels(ofPartition index: UInt32, entering phase: ChannelSlot.Phase, now: Moment) {
        guard let assignmentEpoch = partitions[index]?.pointee.assignmentEpoch else { return }
        for rawIndex in 0..<channels.indexBound {
            let channel = ChannelIndex(rawValue: rawIndex)
            guard channels.isInUse(channel), channels[channel].partitionIndex == index,
                channels[channel].assignmentEpoch == assignmentEpoch
            else { continue }
            channels[channel].enter(phase)
            removeFromReadyChannels(channel)
            if phase == .abandoned, channelsByKey[channels[channel].key] == channel {
                channelsByKey[channels[channel].key] = nil
            }
            let waiting = channels[channel].waitingBroadcast
            channels[channel].waitingBroadcast = .null
            if waiting != .null { dropBroadcast(waiting, now: now) }
            if phase == .abandoned, channels.isInUse(channel) { noteDroppedBroadcastsOfOtherPartitions(of: channel) }
            if channels.isInUse(channel) { _ = freeSlotIfUnused(channel: channel, now: now) }
        }
    }

    /// Notes records as dropped because their channel's partition is released. Does not wait for APNs' response,
    /// because another worker may then work on the channel.
    ///
    /// Concerns only the broadcast that is being pushed and its rider (``BroadcastSlot/rider``), and only records from
    /// another partition. If this lane keeps that partition, it reads the record again
    /// (``noteDroppedBeforeResponse(_:ofApp:)``).
    private mutating func noteDroppedBroadcastsOfOtherPartitions(of channel: ChannelIndex) {
        var broadcast = channels[channel].broadcastUnderWay
        while broadcast != .null {
            if broadcasts[broadcast].record.partitionIndex != channels[channel].partitionIndex {
                noteDroppedBeforeResponse(broadcasts[broadcast].record, ofApp: channels[channel].key.appIndex)
                broadcasts[broadcast].record.assignmentEpoch = FanoutPartition.noAssignmentEpoch
            }
            broadcast = broadcasts[broadcast].rider
        }
    }

    private mutating func removeFromReadyChannels(_ channel: ChannelIndex) {
        guard channels[channel].isQueued else { return }
        let (appIndex, environment) = appAndEnvironment(ofChannel: channel)
        apps[appIndex].readyChannels[environment].remove(channel, in: &channels)
        channels[channel].isQueued = false
    }

    // MARK: - Results of broadcasts

    mutating func composeBroadcastResult(_ broadcast: BroadcastIndex) -> ComposedRecord {
        let slot = broadcasts[broadcast]
        let channel = slot.record.instruction.channel ?? channels[slot.channel].apnsChannel
        let reason = slot.outcome == .failed ? slot.reason.bytes : UnsafeRawBufferPointer(start: nil, count: 0)
        return composeResult(of: subject(ofChannel: slot.channel), slot.record) { command, writer in
            var result = BroadcastResultRecord(
                command: command,
                channel: channel,
                outcome: slot.outcome,
                reason: reason,
                times: slot.times
            )
            result.status = slot.httpStatus
            if slot.outcome == .failed { result.advice = slot.advice }
            result.droppedFieldNames = slot.record.droppedFields.bytes
            result.write(to: &writer)
        }
    }

    mutating func composeCommandResultAfterBroadcast(_ broadcast: BroadcastIndex) -> ComposedRecord {
        let slot = broadcasts[broadcast]
        return composeTotals(
            slot.totals,
            of: subject(ofChannel: slot.channel),
            slot.record,
            isSuperseded: slot.outcome == .superseded
        )
    }

    private func subject(ofChannel channel: ChannelIndex) -> ResultSubject {
        let slot = channels[channel]
        return ResultSubject(
            appIndex: slot.key.appIndex,
            identifier: slot.audienceOrChannelIdentifier.bytes,
            isChannel: slot.isManagedByProducer
        )
    }
}
