import Delivery
import LiveActivity

/// Frees the slot of a channel (``ChannelSlot``) some time after the channel's last broadcast. It is freed earlier if a
/// new channel needs the slot, or if the channel's partition is revoked or released. The slot outlives the broadcasts,
/// because it knows when the channel's next push may be sent. (R31)
extension Audiences {
    /// Frees the channel's slot if no broadcast needs it. While the channel's partition is assigned, the channel must
    /// also have been idle for ``ChannelPace/idleMillisecondsMax``.
    ///
    /// - Returns: whether the slot was freed.
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

    /// Frees the slot of an idle channel, so that a new channel can have it. Returns false if no slot could be freed.
    /// Without this function, one app with many idle channels could block the broadcasts of all apps. (R22)
    ///
    /// The search begins where the previous search ended. Of the first `comparedIdleChannelsMax` idle channels that it
    /// finds, the one that has been idle longest is freed. A channel whose spacing has not passed yet is left out,
    /// because only its slot knows when the next push may be sent. (R31)
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

    /// Stops the broadcasts to the channels of a partition that is being revoked (phase `draining`) or released (phase
    /// `abandoned`). Drops the waiting broadcasts: the partition's next owner reads their records again.
    ///
    /// An abandoned channel also loses its entry in `channelsByKey`. So if the lane reads a record of this channel
    /// again, the channel gets a new slot, although a push of the old slot may still be under way.
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

    /// Called when the channel's partition is released. The broadcast that is being pushed and its riders
    /// (``BroadcastSlot/rider``) may have records of other partitions. Notes these records as dropped: if this lane
    /// keeps such a partition, it reads the record again (``noteDroppedBeforeResponse(_:ofApp:)``).
    ///
    /// Records of the channel's own partition need no note, because the partition's next owner reads them again.
    private mutating func noteDroppedBroadcastsOfOtherPartitions(of channel: ChannelIndex) {
        var broadcast = channels[channel].broadcastUnderWay
        while broadcast != .null {
            let slot = broadcasts.mutableAddress(of: broadcast)
            if slot.pointee.record.partitionIndex != channels[channel].partitionIndex {
                noteDroppedBeforeResponse(&slot.pointee.record, ofApp: channels[channel].key.appIndex)
            }
            broadcast = slot.pointee.rider
        }
    }

    private mutating func removeFromReadyChannels(_ channel: ChannelIndex) {
        guard channels[channel].isQueued else { return }
        let (appIndex, environment) = appAndEnvironment(ofChannel: channel)
        apps[appIndex].readyChannels[environment].remove(channel, in: &channels)
        channels[channel].isQueued = false
    }
}
