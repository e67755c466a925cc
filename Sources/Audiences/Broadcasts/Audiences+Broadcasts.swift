public import Delivery
import LiveActivity
import Numbers

/// Broadcasts: commands to a channel of an audience, or to a channel that their producer manages. Each channel has at
/// most one push under way. Of the states that wait for a channel, the core keeps only the newest.
///
/// Invariants:
/// - While the core has a slot for a channel, it sends no command to the channel after a newer one.
/// - The core sends at most one push to a channel within the channel's spacing.
/// - An alert leaves with the first push that can carry it. After APNs has accepted this push, no other push carries
///   the alert.
/// - Broadcasts of a channel settle in order, unless an older one is dropped because its partition is being revoked.
extension Audiences {
    /// Takes a fan-out record for a channel: makes its broadcast wait in the channel, or finishes it. If there is no
    /// room for the record, it is passed over, and is read again later. (R30)
    mutating func receiveBroadcast(_ incoming: IncomingFanoutRecord, to apnsChannel: AudienceChannel, now: Moment) {
        let (record, command, value) = (incoming.record, incoming.command, incoming.value)
        guard let partition = partitions[record.partitionIndex] else { return }
        let key = ChannelKey(
            appIndex: incoming.appIndex,
            digest: command.channel.isAbsent
                ? withUnescapedText(command.audience, from: value) { AudienceDigest(of: $0) }
                : withUnescapedText(command.channel, from: value) {
                    AudienceDigest(ofChannel: $0, in: apnsChannel.environment)
                },
            environment: apnsChannel.environment
        )
        guard ensureRoomForBroadcast(key, at: record.offset, of: record.partitionIndex, now: now) else {
            return partition.pointee.passedOverRecords
                .insert(
                    record.offset,
                    of: incoming.appIndex,
                    admittedAtWallMilliseconds: incoming.instruction.admittedAtMilliseconds
                )
        }
        partition.pointee.passedOverRecords.remove(record.offset)
        partition.pointee.unsettledRecordCount += 1
        let assignmentEpoch = partition.pointee.assignmentEpoch
        let channel =
            channelsByKey[key] ?? addChannel(key, apnsChannel, command, value, record.partitionIndex, assignmentEpoch)
        let fanoutRecord = makeFanoutRecord(incoming, assignmentEpoch: assignmentEpoch, now: now)
        let broadcast = addBroadcast(fanoutRecord, to: channel)
        channels[channel].broadcasts.append(broadcast, in: &broadcasts)
        setWaitingBroadcast(broadcast, in: channel, apnsChannel, now: now)
    }

    private mutating func addChannel(
        _ key: ChannelKey,
        _ apnsChannel: AudienceChannel,
        _ command: Command,
        _ value: UnsafeRawBufferPointer,
        _ partitionIndex: UInt32,
        _ assignmentEpoch: UInt32
    ) -> ChannelIndex {
        let isManagedByProducer = !command.channel.isAbsent
        let identifier = unescaped(isManagedByProducer ? command.channel : command.audience, from: value)
        let channel = channels.allocate(
            ChannelSlot(
                key: key,
                audienceOrChannelIdentifier: identifier,
                isManagedByProducer: isManagedByProducer,
                partitionIndex: partitionIndex,
                assignmentEpoch: assignmentEpoch,
                apnsChannel: apnsChannel
            )
        )
        channelsByKey[key] = channel
        return channel
    }

    private mutating func addBroadcast(_ record: FanoutRecord, to channel: ChannelIndex) -> BroadcastIndex {
        let appIndex = Int(channels[channel].key.appIndex)
        let broadcast = broadcasts.allocate(BroadcastSlot(channel: channel, record: record))
        apps[appIndex].fanoutRecordCount += 1
        addFanoutRecordBytes(broadcasts[broadcast].occupiedBytes, ofApp: appIndex)
        return broadcast
    }

    /// Makes a new broadcast the one that waits in its channel, and supersedes an older one that waits there. For an
    /// audience's channel, also notes `apnsChannel`, which the record names. Exceptions:
    /// - If the channel already had a newer command, the new broadcast is finished as superseded.
    /// - If the channel already had a broadcast of the same command, the new one writes no result, because the earlier
    ///   one writes it or has written it (``settleDuplicate(_:of:now:)``).
    private mutating func setWaitingBroadcast(
        _ broadcast: BroadcastIndex,
        in channel: ChannelIndex,
        _ apnsChannel: AudienceChannel,
        now: Moment
    ) {
        if let earlier = earlierBroadcast(ofSameVersionAs: broadcast) {
            return settleDuplicate(broadcast, of: earlier, now: now)
        }
        let slot = channels[channel]
        let record = broadcasts[broadcast].record
        var timestamp = record.instruction.grant.timestamp
        let (version, admittedAtWallMilliseconds) = (record.version, record.instruction.admittedAtMilliseconds)
        if timestamp <= slot.newestTimestamp {
            let isNewer =
                version > slot.newestVersion && admittedAtWallMilliseconds > slot.newestAdmittedAtWallMilliseconds
            guard isNewer else {
                let isOfNewestCommand = timestamp == slot.newestTimestamp && version <= slot.newestVersion
                guard isOfNewestCommand else { return finishBroadcast(broadcast, .superseded, now: now) }
                // The channel had an earlier record of the same command, whose broadcast has written the result.
                return settleWithoutResult(broadcast, now: now)
            }
            // Redis has lost data about the audience or channel: this broadcast is newer than the channel's last one,
            // but Redis gave it no higher timestamp. Raise the timestamp, because phones ignore a state whose timestamp
            // is not newer.
            timestamp = slot.newestTimestamp + 1
            setTimestamp(timestamp, forBroadcast: broadcast)
        }
        // No update may follow an end, but the record of an update may arrive after that of the end. The update's
        // version may even be higher than the end's, if Redis admitted the update first. So an end sets the channel's
        // newest version to the highest possible one, and no version counts as newer.
        let isEnd = record.event == .end
        channels[channel].newestVersion =
            isEnd ? Version(timestamp: .max, sequence: .max) : max(version, slot.newestVersion)
        channels[channel].newestAdmittedAtWallMilliseconds = admittedAtWallMilliseconds
        channels[channel].newestTimestamp = timestamp
        if apnsChannel.identifier != channels[channel].apnsChannel.identifier {
            channels[channel].replacementAwaitedUntilMilliseconds = .min
        }
        // A record does not say which storage policy a producer's own channel has. APNs' responses have shown the
        // policy, and `apnsChannel` of the slot has it. So the slot keeps its `apnsChannel`.
        if !channels[channel].isManagedByProducer { channels[channel].apnsChannel = apnsChannel }
        let older = channels[channel].waitingBroadcast
        channels[channel].waitingBroadcast = broadcast
        if older != .null { supersedeBroadcast(older, by: broadcast, now: now) }
        advance(channel: channel, now: now)
    }

    private mutating func setTimestamp(_ timestamp: Int64, forBroadcast broadcast: BroadcastIndex) {
        broadcasts[broadcast].record.instruction.grant.timestamp = timestamp
        let record = broadcasts[broadcast].record
        PushBody.setTimestamp(timestamp, in: record.body.mutableBuffer, record.bodyLayout)
    }

    /// Supersedes `older`. If `older` has an alert, `newer` carries this alert, except in three cases:
    /// - `newer` has an alert of its own.
    /// - The body of `newer` has no room for the alert.
    /// - The alert is too old.
    ///
    /// If `newer` carries the alert, the broadcast that brought the alert becomes the rider of `newer`, and both end
    /// together. Every other superseded broadcast is finished now.
    mutating func supersedeBroadcast(_ older: BroadcastIndex, by newer: BroadcastIndex, now: Moment) {
        let (olderRecord, newerRecord) = (broadcasts[older].record, broadcasts[newer].record)
        let isManagedByProducer = channels[broadcasts[newer].channel].isManagedByProducer
        guard olderRecord.hasAlert, !newerRecord.hasAlert, !olderRecord.isAlertTooOld(now: now),
            PushBody.byteCount(
                newerRecord.body.bytes,
                newerRecord.bodyLayout,
                carryingAlertBytes: Int(olderRecord.bodyLayout.alert.count)
            )
                <= (isManagedByProducer ? Limits.broadcastBodyBytesMax : Limits.bodyBytesMax)
        else {
            // If `older` has an alert, its own or a carried one, no further push brings this alert.
            return finishBroadcast(older, .superseded, now: now)
        }
        let alert = olderRecord.bodyLayout.alert.bytes(in: olderRecord.body.bytes)
        let (body, layout) = Self.bodyWithAlert(alert, on: newerRecord.body.bytes, newerRecord.bodyLayout)
        replaceBody(of: newer, by: body, layout)
        broadcasts[newer].record.alertVersion = olderRecord.alertVersion
        broadcasts[newer].record.alertAgeSecondsMax = olderRecord.alertAgeSecondsMax
        let rider = broadcasts[older].rider
        guard rider == .null else {
            // The alert came from `rider`, an even older broadcast. From now on `newer` carries the alert, so `older`
            // can end.
            broadcasts[older].rider = .null
            broadcasts[newer].rider = rider
            return finishBroadcast(older, .superseded, now: now)
        }
        broadcasts[older].enter(.riding)
        broadcasts[newer].rider = older
    }

    private mutating func replaceBody(of broadcast: BroadcastIndex, by body: HeapBytes, _ layout: PushBody.Layout) {
        let appIndex = Int(channels[broadcasts[broadcast].channel].key.appIndex)
        addFanoutRecordBytes(body.count - broadcasts[broadcast].record.body.count, ofApp: appIndex)
        broadcasts[broadcast].record.body.free()
        broadcasts[broadcast].record.body = body
        broadcasts[broadcast].record.bodyLayout = layout
    }

    /// Removes the broadcast's alert if the alert is too old. The state is then sent without an alert.
    mutating func removeAlertIfOld(forBroadcast broadcast: BroadcastIndex, now: Moment) {
        let record = broadcasts[broadcast].record
        guard record.hasAlert, record.isAlertTooOld(now: now) else { return }
        let (body, layout) = Self.bodyWithoutAlert(record.body.bytes, record.bodyLayout)
        replaceBody(of: broadcast, by: body, layout)
    }

    // MARK: - The turn of a channel

    /// Does what can be done for the channel now: finishes the waiting broadcast if it has expired, frees the channel's
    /// slot if the channel is idle, or queues the channel for a push. If the channel must wait, sets its timer.
    /// Afterwards the slot may be free.
    mutating func advance(channel: ChannelIndex, now: Moment) {
        let waitingBroadcast = channels[channel].waitingBroadcast
        if waitingBroadcast != .null, channels[channel].phase == .running,
            expiresAtSeconds(of: broadcasts[waitingBroadcast].record) < now.wallSeconds
        {
            channels[channel].waitingBroadcast = .null
            finishBroadcast(waitingBroadcast, .expired, now: now)
        }
        guard channels.isInUse(channel), !freeSlotIfUnused(channel: channel, now: now) else { return }
        guard channels[channel].phase == .running else { return }
        let slot = channels[channel]
        let nextPushDueMilliseconds = nextPushDueMilliseconds(of: slot)
        let isDue = nextPushDueMilliseconds <= now.monotonicMilliseconds
        if slot.waitingBroadcast != .null, slot.broadcastUnderWay == .null, isDue { return enqueue(channel: channel) }
        var dueMilliseconds = isDue ? idleEndMilliseconds(of: channel) : nextPushDueMilliseconds
        // The idle time is over, but the channel has a broadcast that is not settled yet. No timer is needed, because
        // the channel is freed when this broadcast settles or is dropped.
        if dueMilliseconds <= now.monotonicMilliseconds { dueMilliseconds = .max }
        if slot.waitingBroadcast != .null {
            let waitMilliseconds =
                (expiresAtSeconds(of: broadcasts[slot.waitingBroadcast].record) + 1) * 1_000 - now.wallMilliseconds
            dueMilliseconds = min(dueMilliseconds, now.monotonicMilliseconds + max(1, waitMilliseconds))
        }
        guard dueMilliseconds < slot.timerDueMilliseconds else { return }
        channels[channel].timerDueMilliseconds = dueMilliseconds
        startTimer(.channel(channel), dueMilliseconds: dueMilliseconds)
    }

    /// Returns when the channel's next push may be sent (monotonic milliseconds). The pause after a failed attempt
    /// counts only for the broadcast that failed, so a newer state does not wait for it.
    private func nextPushDueMilliseconds(of slot: ChannelSlot) -> Int64 {
        guard slot.waitingBroadcast != .null else { return slot.nextPushDueMilliseconds }
        return max(slot.nextPushDueMilliseconds, broadcasts[slot.waitingBroadcast].retryDueMilliseconds)
    }

    private mutating func enqueue(channel: ChannelIndex) {
        guard !channels[channel].isQueued else { return }
        let (appIndex, environment) = appAndEnvironment(ofChannel: channel)
        channels[channel].isQueued = true
        apps[appIndex].readyChannels[environment].append(channel, in: &channels)
    }

    func appAndEnvironment(ofChannel channel: ChannelIndex) -> (appIndex: Int, environment: APNsEnvironment) {
        let key = channels[channel].key
        return (Int(key.appIndex), key.environment)
    }

    private mutating func popReadyChannel(_ appIndex: Int, _ environment: APNsEnvironment) -> ChannelIndex? {
        guard let channel = apps[appIndex].readyChannels[environment].popFirst(in: &channels) else { return nil }
        channels[channel].isQueued = false
        return channel
    }

    /// Returns how many broadcasts could be sent now if the pool had a free stream. Returns 0 if a pool with this
    /// traffic sends no broadcasts.
    public func waitingBroadcastCount(of pool: PoolTarget, traffic: PoolTraffic) -> Int {
        guard traffic.hasBroadcasts else { return 0 }
        var count = 0
        var channel = apps[Int(pool.appIndex)].readyChannels[pool.environment].first
        while channel != .null {
            if channels[channel].waitingBroadcast != .null { count += 1 }
            channel = channels[channel].nextInList
        }
        return count
    }

    /// Returns the push of a pool's next broadcast; nil if no broadcast may be sent now. Expired broadcasts that come
    /// before are finished. If `permitsRetry` is false, broadcasts that failed before pause for up to
    /// ``AudiencesConfiguration/longRetryPauseMilliseconds``.
    mutating func takeNextBroadcast(_ pool: PoolTarget, permitsRetry: Bool, now: Moment) -> AudiencePush? {
        let (appIndex, environment) = (Int(pool.appIndex), pool.environment)
        while let channel = popReadyChannel(appIndex, environment) {
            let slot = channels[channel]
            let canSend =
                slot.phase == .running && slot.waitingBroadcast != .null && slot.broadcastUnderWay == .null
                && nextPushDueMilliseconds(of: slot) <= now.monotonicMilliseconds
            guard canSend, expiresAtSeconds(of: broadcasts[slot.waitingBroadcast].record) >= now.wallSeconds else {
                advance(channel: channel, now: now)
                continue
            }
            guard permitsRetry || broadcasts[slot.waitingBroadcast].failedAttemptCount == 0 else {
                let pauseMilliseconds = random.jitteredMilliseconds(configuration.longRetryPauseMilliseconds)
                broadcasts[slot.waitingBroadcast].retryDueMilliseconds = now.monotonicMilliseconds + pauseMilliseconds
                advance(channel: channel, now: now)
                continue
            }
            return offerBroadcast(of: channel, now: now)
        }
        return nil
    }

    private mutating func offerBroadcast(of channel: ChannelIndex, now: Moment) -> AudiencePush {
        let broadcast = channels[channel].waitingBroadcast
        removeAlertIfOld(forBroadcast: broadcast, now: now)
        channels[channel].waitingBroadcast = .null
        channels[channel].broadcastUnderWay = broadcast
        channels[channel].pausedUntilBeforePushMilliseconds = channels[channel].pausedUntilMilliseconds
        channels[channel].pausedUntilMilliseconds = now.monotonicMilliseconds + channels[channel].spacingMilliseconds
        broadcasts[broadcast].enter(.underWay)
        let apnsChannel = channels[channel].apnsChannel
        channels[channel].channelOfLastPush = apnsChannel.identifier
        let address = apnsChannel.identifier.withBytes { identifier in
            pushAddressBuffer.copyMemory(from: identifier)
            return UnsafeRawBufferPointer(rebasing: pushAddressBuffer[..<identifier.count])
        }
        let slot = broadcasts[broadcast]
        let tag = PushTag(broadcast: broadcast).rawValue
        offeredPush = OfferedPush(tag: tag, previousSendPosition: 0)
        return AudiencePush(
            tag: tag,
            address: address,
            isBroadcast: true,
            body: slot.record.body.bytes,
            priority: slot.record.instruction.grant.priority,
            // On a channel without storage, APNs refuses every expiration except 0.
            expirationSeconds: apnsChannel.storage == .none
                ? 0
                : sentExpirationSeconds(of: slot.record, from: now.wallSeconds),
            apnsId: random.nextUUID(),
            isRetry: slot.failedAttemptCount > 0
        )
    }

    /// Takes back the broadcast that ``takeNextBroadcast(_:permitsRetry:now:)`` has returned, because no stream was
    /// free. Its channel waits in its app's queue again.
    mutating func putBackBroadcast(_ broadcast: BroadcastIndex) {
        let channel = broadcasts[broadcast].channel
        let (appIndex, environment) = appAndEnvironment(ofChannel: channel)
        apps[appIndex].inFlightBroadcastCounts[environment] -= 1
        channels[channel].broadcastUnderWay = .null
        channels[channel].waitingBroadcast = broadcast
        channels[channel].pausedUntilMilliseconds = channels[channel].pausedUntilBeforePushMilliseconds
        broadcasts[broadcast].enter(.waiting)
        enqueue(channel: channel)
    }
}
