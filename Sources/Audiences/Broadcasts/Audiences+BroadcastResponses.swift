public import Delivery
public import LiveActivity
import Numbers

/// Handles APNs' responses to broadcasts, and lost channels.
extension Audiences {
    /// How long the broadcasts of a lost channel wait for a new one, from the core's request to the keeper or from the
    /// keeper's latest refusal. The wait is a little longer than 60 s: after a transient failure, the keeper asks APNs
    /// again only after 60 s (`transientFailurePauseMilliseconds`).
    static var replacementChannelWaitMillisecondsMax: Int64 { 65_000 }

    /// Decides what APNs' response means for a broadcast: finishes it, or makes it wait to be sent again. Changes the
    /// channel's spacing after an accepted push and after a 429. If the channel is abandoned, drops the broadcast
    /// instead.
    mutating func handleBroadcastResponse(_ broadcast: BroadcastIndex, _ result: PushResult, now: Moment) {
        let channel = broadcasts[broadcast].channel
        let (appIndex, environment) = appAndEnvironment(ofChannel: channel)
        apps[appIndex].inFlightBroadcastCounts[environment] -= 1
        channels[channel].broadcastUnderWay = .null
        noteResponse(result, of: broadcast)
        guard channels[channel].phase != .abandoned else { return dropBroadcast(broadcast, now: now) }
        switch result.disposition {
        case .accepted:
            channels[channel].spacingMilliseconds = ChannelPace.halvedSpacingMilliseconds(
                channels[channel].spacingMilliseconds
            )
            finishBroadcast(broadcast, .delivered, now: now)
        case .rejected where noteMissingStorage(of: channel, from: result.reason):
            retryBroadcast(broadcast, pauseMilliseconds: 0, now: now)
        // APNs does not know the channel. The broadcast fails, and no new channel is requested, in two cases:
        // - The producer manages the channel: only the producer may create a new one.
        // - The broadcast is an end: a new channel would have no subscribers, and nothing would delete it.
        case .channelGone where channels[channel].isManagedByProducer || broadcasts[broadcast].record.event == .end:
            finishBroadcast(broadcast, .failed, now: now)
        case .rejected, .tokenDead, .tokenSuspect, .topicSuspect: finishBroadcast(broadcast, .failed, now: now)
        case .channelGone:
            // APNs does not know the channel to which this push went. If the keeper or a newer record has named another
            // channel since then, do not request a new one.
            if channels[channel].channelOfLastPush == channels[channel].apnsChannel.identifier {
                requestReplacementChannel(channel, now: now)
            }
            retryBroadcast(broadcast, pauseMilliseconds: 0, now: now)
        case .throttled:
            channels[channel].spacingMilliseconds = ChannelPace.doubledSpacingMilliseconds(
                channels[channel].spacingMilliseconds
            )
            // The spacing belongs to the channel, so a newer broadcast waits for it too.
            channels[channel].pausedUntilMilliseconds = max(
                channels[channel].pausedUntilMilliseconds,
                now.monotonicMilliseconds + channels[channel].spacingMilliseconds
            )
            retryBroadcast(broadcast, pauseMilliseconds: 0, now: now)
        case .retrySoon, .retryLater, .ambiguous:
            let pauseMilliseconds = chooseBroadcastRetryPauseMilliseconds(of: broadcast, result)
            retryBroadcast(broadcast, pauseMilliseconds: pauseMilliseconds, now: now)
        }
        if channels.isInUse(channel) { advance(channel: channel, now: now) }
    }

    private mutating func noteResponse(_ result: PushResult, of broadcast: BroadcastIndex) {
        guard result.status != 0 else { return }
        let slot = broadcasts.mutableAddress(of: broadcast)
        slot.pointee.httpStatus = result.status
        slot.pointee.advice = result.advice
        slot.pointee.reason.free()
        slot.pointee.reason = HeapBytes(copying: UnsafeRawBufferPointer(rebasing: result.reason.prefix(64)))
        if slot.pointee.times.firstResponseAtMilliseconds < 0 {
            slot.pointee.times.firstResponseAtMilliseconds = result.responseAtWallMilliseconds
        }
        slot.pointee.times.lastResponseAtMilliseconds = result.responseAtWallMilliseconds
    }

    private mutating func chooseBroadcastRetryPauseMilliseconds(of broadcast: BroadcastIndex, _ result: PushResult)
        -> Int64
    {
        let failedAttemptCount = broadcasts[broadcast].failedAttemptCount
        let pauseMilliseconds = chooseRetryPauseMilliseconds(
            failedAttemptCount: failedAttemptCount < .max ? failedAttemptCount + 1 : .max
        )
        return result.isRetryPermitted
            ? pauseMilliseconds
            : max(pauseMilliseconds, random.jitteredMilliseconds(configuration.longRetryPauseMilliseconds))
    }

    /// Makes the broadcast wait, and sends it again after the pause. If a newer state waits, or comes during the pause,
    /// that state replaces the broadcast and may carry its alert. The newer state waits only for the channel's spacing.
    /// If the channel's partition is being revoked, drops the broadcast.
    private mutating func retryBroadcast(_ broadcast: BroadcastIndex, pauseMilliseconds: Int64, now: Moment) {
        let channel = broadcasts[broadcast].channel
        broadcasts[broadcast].retryDueMilliseconds = now.monotonicMilliseconds + pauseMilliseconds
        broadcasts[broadcast].failedAttemptCount = min(broadcasts[broadcast].failedAttemptCount, .max - 1) + 1
        broadcasts[broadcast].enter(.waiting)
        guard channels[channel].phase == .running else { return dropBroadcast(broadcast, now: now) }
        let newer = channels[channel].waitingBroadcast
        guard newer == .null else { return supersedeBroadcast(broadcast, by: newer, now: now) }
        channels[channel].waitingBroadcast = broadcast
    }

    // MARK: - Lost channels

    /// Asks the keeper for a new channel, because APNs does not know the present one. The broadcasts then wait until
    /// the keeper or a newer record names the new channel, at most ``replacementChannelWaitMillisecondsMax``. If the
    /// queue of requests is full, they do not wait.
    ///
    /// After a wait without success, the next push goes to the lost channel. APNs refuses it, and the core asks again.
    private mutating func requestReplacementChannel(_ channel: ChannelIndex, now: Moment) {
        let slot = channels[channel]
        let isRequested = appendChannelRequest(
            .lost(slot.apnsChannel),
            appIndex: slot.key.appIndex,
            audience: slot.audienceOrChannelIdentifier.bytes
        )
        if isRequested { beginWaitForReplacementChannel(channel, now: now) }
    }

    /// Called when the keeper has refused to replace a lost channel. If broadcasts still wait for the new channel,
    /// their wait begins again now, because the keeper asks APNs again only after a pause.
    mutating func handleRefusedReplacementChannel(_ channel: ChannelIndex, now: Moment) {
        guard channels[channel].replacementAwaitedUntilMilliseconds > now.monotonicMilliseconds else { return }
        beginWaitForReplacementChannel(channel, now: now)
    }

    private mutating func beginWaitForReplacementChannel(_ channel: ChannelIndex, now: Moment) {
        let waitEndMilliseconds = now.monotonicMilliseconds + Self.replacementChannelWaitMillisecondsMax
        channels[channel].replacementAwaitedUntilMilliseconds = waitEndMilliseconds
    }

    /// Takes an audience's channel from the keeper. Broadcasts that wait for a push to the channel's environment will
    /// go to this channel. If a command waits only for this channel, it is admitted again.
    public mutating func handleProvidedChannel(
        appIndex: UInt16,
        audience: AudienceDigest,
        _ providedChannel: AudienceChannel,
        now: Moment
    ) {
        apps[Int(appIndex)].channelProvidedAtMilliseconds[providedChannel.environment] = now.monotonicMilliseconds
        handleKeeperResponse(appIndex: appIndex, audience: audience, providedChannel.environment, nil)
        let key = ChannelKey(appIndex: appIndex, digest: audience, environment: providedChannel.environment)
        guard let channel = channelsByKey[key] else { return }
        channels[channel].apnsChannel = providedChannel
        channels[channel].replacementAwaitedUntilMilliseconds = .min
        advance(channel: channel, now: now)
    }
}
