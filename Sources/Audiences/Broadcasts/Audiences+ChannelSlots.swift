import Delivery
import LiveActivity

/// When the slot of a channel (``ChannelSlot``) is freed: some time after its last broadcast, or earlier if a new
/// channel needs the slot, or if the channel's partition is revoked or released. The slot remembers when the next push
/// may be sent, so it outlives the channel's broadcasts. (R31)
extension Audiences {
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
    /// kept their slots, one app with many channels could block the broadcasts of all apps. (R22)
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
    ///
    /// A channel that enters the phase `abandoned` also loses its entry in `channelsByKey`. So if the lane reads a
    /// record of the same channel again, the channel gets a new slot, although a push of the old slot may still be
    /// under way.
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
}
