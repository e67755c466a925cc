public import Delivery
public import LiveActivity

/// Makes commands wait for a missing channel of their audience, so that a start can name the channel, and an update or
/// an end can be broadcast.
/// 1. The command is admitted.
/// 2. The command waits until the keeper of channels responds, at most two seconds. A start waits longer while the
///    keeper creates other channels (``mustAwaitBusyKeeper(_:now:)``). If the store may have lost its channels, any
///    command waits until the keeper has restored them, at most ten minutes (R32; `Audiences+LostChannels`).
/// 3. The command is admitted again, because the store must know how many broadcasts belong to it.
/// 4. If the channel is still missing, the audience's commands of the next minute do not wait, unless the store may
///    have lost its channels since.
///
/// So if Apple's channel management is unavailable, only one command per audience and minute waits. If one of the
/// limits below is reached, a command does not wait either.
extension Audiences {
    /// How long a command waits for a missing channel. After this time, it is sent without the channel. Exceptions: a
    /// start waits this time again while the keeper creates other channels, and so does any command while the store may
    /// have lost the channel.
    static var usualChannelWaitMilliseconds: Int64 { 2_000 }
    /// The maximum number of commands that wait for a channel; less if half of the table of commands has fewer slots.
    /// At the maximum, a further command does not wait for its missing channel.
    static var commandsAwaitingChannelMax: Int { 1_024 }
    /// How long no command of an audience begins to wait for a channel, after a command of the audience has waited for
    /// one without success. This time is the audience's pause.
    static var pauseAfterFailedChannelWaitMilliseconds: Int64 { 60_000 }
    /// The maximum number of audiences that have a pause (``pauseAfterFailedChannelWaitMilliseconds``). At this number,
    /// no command of any audience begins to wait for a channel. Commands that already wait may still add pauses.
    static var channelWaitPausesMax: Int { 4_096 }
    /// While ``channelWaitPausesMax`` is reached, the core removes ended pauses at most once in this time, because each
    /// removal scans the pauses of all audiences.
    static var endedPauseRemovalIntervalMilliseconds: Int64 { 1_000 }

    /// Makes an admitted command wait for a missing channel of its audience, if a wait is permitted. Otherwise notes
    /// for the result (`channelAbsence`) why the command lacks a channel that its audience should have or that the
    /// store may have lost. Notes nothing if the keeper has responded and the command needs no new channel. An end
    /// never needs one, because no phone would subscribe to it.
    ///
    /// - Returns: whether the command waits.
    mutating func beginWaitForMissingChannel(_ command: CommandIndex, now: Moment) -> Bool {
        let slot = commands[command]
        let audienceSlot = audiences[slot.audience]
        let shouldHaveChannel = shouldAudienceHaveChannel(command)
        guard let rule = configuration.channelRules[audienceSlot.appIndex],
            shouldHaveChannel || slot.hasAwaitedChannel || mustSeekChannels(ofApp: audienceSlot.appIndex, now: now)
        else { return false }
        let missingEnvironmentBits = rule.missingEnvironmentBits(in: slot.channels)
        let key = AudienceKey(appIndex: audienceSlot.appIndex, digest: audienceSlot.digest)
        guard missingEnvironmentBits != 0 else {
            channelWaitPauseEndMilliseconds[key] = nil
            commands[command].channelAbsence = nil
            return false
        }
        guard !slot.hasAwaitedChannel else {
            let hasKeeperResponded = slot.awaitedEnvironmentBits == 0
            let needsNewChannel = slot.event != .end && shouldHaveChannel
            if hasKeeperResponded, !needsNewChannel, slot.channelAbsence == nil { return false }
            commands[command].channelAbsence = slot.channelAbsence ?? .notInTime
            pauseChannelWaits(key, now: now)
            return false
        }
        removeEndedChannelWaitPausesIfFull(now: now)
        guard hasRoomToAwaitChannel(command), mayAwaitChannel(key, now: now) else {
            commands[command].channelAbsence = .notAwaited
            return false
        }
        commands[command].enter(.awaitingChannel)
        commands[command].awaitedEnvironmentBits = missingEnvironmentBits
        commands[command].channelWaitBeganAtMilliseconds = now.monotonicMilliseconds
        commands[command].hasAwaitedChannel = true
        countCommandAwaitingChannel(command, by: 1)
        notePossiblyLostChannels(of: command, now: now)
        if commands[command].isAwaitedChannelPossiblyLost { seekChannel(of: command) }
        startChannelWaitTimer(command, dueMilliseconds: now.monotonicMilliseconds + Self.usualChannelWaitMilliseconds)
        return true
    }

    private mutating func startChannelWaitTimer(_ command: CommandIndex, dueMilliseconds: Int64) {
        commands[command].channelWaitEndMilliseconds = dueMilliseconds
        startTimer(.channelWait(command), dueMilliseconds: dueMilliseconds)
    }

    private func mayAwaitChannel(_ key: AudienceKey, now: Moment) -> Bool {
        guard channelWaitPauseEndMilliseconds.count < Self.channelWaitPausesMax else { return false }
        guard let pauseEndMilliseconds = channelWaitPauseEndMilliseconds[key],
            pauseEndMilliseconds > now.monotonicMilliseconds
        else { return true }
        // The audience has a pause, because an earlier wait brought no channel. But if the store may have lost its
        // channels after the pause began, a new wait may succeed: the keeper restores lost channels. So the pause does
        // not count then.
        let pauseBeganAtMilliseconds = pauseEndMilliseconds - Self.pauseAfterFailedChannelWaitMilliseconds
        return pauseBeganAtMilliseconds <= storeMayHaveLostDataAtMilliseconds
            && mustSeekChannels(ofApp: key.appIndex, now: now)
    }

    private mutating func pauseChannelWaits(_ key: AudienceKey, now: Moment) {
        channelWaitPauseEndMilliseconds[key] = now.monotonicMilliseconds + Self.pauseAfterFailedChannelWaitMilliseconds
    }

    /// If ``channelWaitPausesMax`` is reached, removes the pauses that have ended, but at most once in
    /// ``endedPauseRemovalIntervalMilliseconds``. Below the maximum, ended pauses may stay, because they prevent no
    /// wait (`mayAwaitChannel`).
    private mutating func removeEndedChannelWaitPausesIfFull(now: Moment) {
        guard channelWaitPauseEndMilliseconds.count >= Self.channelWaitPausesMax,
            now.monotonicMilliseconds >= endedPausesLastRemovedAtMilliseconds
                + Self.endedPauseRemovalIntervalMilliseconds
        else { return }
        endedPausesLastRemovedAtMilliseconds = now.monotonicMilliseconds
        channelWaitPauseEndMilliseconds = channelWaitPauseEndMilliseconds.filter {
            $0.value > now.monotonicMilliseconds
        }
    }

    /// Called when the keeper could not create or replace a channel that an audience should have.
    ///
    /// - Parameter isRegistryComplete: false if the registry of channels may lack the channel. A waiting command then
    ///   waits until the keeper has looked for the channel again.
    public mutating func handleRefusedChannel(
        appIndex: UInt16,
        audience: AudienceDigest,
        environment: APNsEnvironment,
        isRegistryComplete: Bool = true,
        now: Moment
    ) {
        if isRegistryComplete {
            handleKeeperResponse(appIndex: appIndex, audience: audience, environment, .refused)
        } else if let command = commandAwaitingChannel(appIndex, audience) {
            commands[command].possiblyLostEnvironmentBits |= 1 << environment.rawValue
        }
        let key = ChannelKey(appIndex: appIndex, digest: audience, environment: environment)
        if let channel = channelsByKey[key] { handleRefusedReplacementChannel(channel, now: now) }
    }

    /// Called when the keeper has noted the end of an audience in one environment. The store now has the audience's
    /// channel, if there is one. If the audience's command is an end, it no longer waits for this channel.
    public mutating func handleNotedAudienceEnd(
        appIndex: UInt16,
        audience: AudienceDigest,
        environment: APNsEnvironment
    ) {
        // A start or an update waits for a new channel. The keeper's response to an earlier end says nothing about this
        // channel.
        guard let command = commandAwaitingChannel(appIndex, audience), commands[command].event == .end else { return }
        handleKeeperResponse(appIndex: appIndex, audience: audience, environment, nil)
    }

    func commandAwaitingChannel(_ appIndex: UInt16, _ digest: AudienceDigest) -> CommandIndex? {
        guard let audience = audiencesByKey[AudienceKey(appIndex: appIndex, digest: digest)],
            case let command = audiences[audience].currentCommand, command != .null,
            commands[command].phase == .awaitingChannel
        else { return nil }
        return command
    }

    /// Called when the registry of channels is complete, and the keeper has responded about one environment. After the
    /// last awaited environment, the audience's waiting command is admitted again.
    ///
    /// - Parameter absence: why the channel is missing; nil if the keeper has not refused to create it.
    mutating func handleKeeperResponse(
        appIndex: UInt16,
        audience: AudienceDigest,
        _ environment: APNsEnvironment,
        _ absence: ChannelAbsence?
    ) {
        apps[Int(appIndex)].restorationWaitPauseEndMilliseconds = .min
        guard let command = commandAwaitingChannel(appIndex, audience) else { return }
        commands[command].awaitedEnvironmentBits &= ~(1 << environment.rawValue)
        if let absence { commands[command].channelAbsence = absence }
        if commands[command].awaitedEnvironmentBits == 0 { admitAgain(command) }
    }

    /// Decides about a command that has waited for its channel for some time. The first rule that applies counts:
    /// - If the store may have lost the channel, the command waits on. The core repeats its requests to the keeper,
    ///   because an earlier one may have been dropped.
    /// - If the keeper has found lately that there is no channel, the command waits for a new one, the usual time from
    ///   then on.
    /// - If the command is a start and the keeper is busy with other channels, the command waits longer
    ///   (``mustAwaitBusyKeeper(_:now:)``). The core then also repeats its request.
    /// - Otherwise the command is admitted again, without the channel.
    mutating func handleChannelWaitTimeout(_ command: CommandIndex, now: Moment) {
        let nextDueMilliseconds = now.monotonicMilliseconds + Self.usualChannelWaitMilliseconds
        notePossiblyLostChannels(of: command, now: now)
        pauseRestorationWaitsIfLimitReached(command, now: now)
        guard !mustAwaitRestoration(command, now: now) else {
            appendChannelRequest(afterAdmissionOf: command, commands[command].channels, now: now)
            seekChannel(of: command)
            return startChannelWaitTimer(command, dueMilliseconds: nextDueMilliseconds)
        }
        let usualEndMilliseconds = newChannelAwaitedSinceMilliseconds(command) + Self.usualChannelWaitMilliseconds
        guard usualEndMilliseconds <= now.monotonicMilliseconds else {
            return startChannelWaitTimer(command, dueMilliseconds: usualEndMilliseconds)
        }
        guard !mustAwaitBusyKeeper(command, now: now) else {
            appendChannelRequest(afterAdmissionOf: command, commands[command].channels, now: now)
            return startChannelWaitTimer(command, dueMilliseconds: nextDueMilliseconds)
        }
        commands[command].channelAbsence = .notInTime
        admitAgain(command)
    }

    /// Puts a command that waits for a channel back into its audience's list, as the first one. Called when the
    /// command's partition is being revoked, so that the command can be dropped.
    mutating func endChannelWait(_ command: CommandIndex) {
        let audience = commands[command].audience
        countCommandAwaitingChannel(command, by: -1)
        audiences[audience].currentCommand = .null
        commands[command].enter(.waiting)
        audiences[audience].waitingCommands.prepend(command, in: &commands)
    }

    /// Ends a command's wait for its channel, and asks the store to admit the command again. If the channel is then
    /// still missing, the command does not wait a second time.
    mutating func admitAgain(_ command: CommandIndex) {
        countCommandAwaitingChannel(command, by: -1)
        commands[command].enter(.admitting)
        storeQueue.append(.admit(command))
    }
}
