public import Delivery
public import LiveActivity

/// Commands whose audience perhaps has a channel that the store has lost.
///
/// While the store may lack channels, a command to any audience waits until the keeper has looked for the audience's
/// channel (`CoreChannelRequest.Kind.sought`). The command waits even if the app's rule does not include the audience,
/// because an earlier command or an operator may have requested the channel.
///
/// The keeper looks in the registry (the store's list of channels), and needs no response of APNs. So a command waits
/// long only if the keeper cannot restore the registry. If the registry has no channel of the audience, the command
/// then waits the usual time for a new one, or not at all if none will be created. (R32)
extension Audiences {
    /// For this long after the store may have lost data (``storeMayHaveLostDataAtMilliseconds``), it may lack channels,
    /// even if it has all members again: the keeper restores the channels apart from the members, and perhaps later.
    static var channelLossMillisecondsMax: Int64 { 60_000 }
    /// How long the commands of an app do not wait for lost channels, after one of them has waited
    /// ``memberWaitMillisecondsMax`` without success. This pause ends earlier when the keeper has restored the
    /// channels.
    static var pauseAfterFailedRestorationWaitMilliseconds: Int64 { 3_600_000 }

    /// Whether the store may have lost the channels of audiences, so that a missing channel perhaps exists.
    private func mayStoreLackChannels(now: Moment) -> Bool {
        mayStoreLackMembers
            || storeMayHaveLostDataAtMilliseconds > now.monotonicMilliseconds - Self.channelLossMillisecondsMax
    }

    /// Whether commands of an app wait for channels that the store may have lost.
    func mustSeekChannels(ofApp appIndex: UInt16, now: Moment) -> Bool {
        mayStoreLackChannels(now: now) && !isRestorationWaitPaused(appIndex, now: now)
    }

    private func isRestorationWaitPaused(_ appIndex: UInt16, now: Moment) -> Bool {
        apps[Int(appIndex)].restorationWaitPauseEndMilliseconds > now.monotonicMilliseconds
    }

    /// Whether one more command may wait for a channel. Waiting commands take at most half of the table of commands,
    /// half of the bytes of commands, and ``commandsAwaitingChannelMax`` places. If half of this room is in use, a
    /// further command waits only if fewer commands of its app wait than the app's equal part of the other half has
    /// places. So no app takes all room from the others. (R22)
    func hasRoomToAwaitChannel(_ command: CommandIndex) -> Bool {
        let commandsMax = min(Self.commandsAwaitingChannelMax, configuration.commandsMax / 2)
        let bytesMax = configuration.commandBytesMax / 2
        guard commandsAwaitingChannelCount < commandsMax, commandsAwaitingChannelBytes < bytesMax else { return false }
        let appIndex = Int(audiences[commands[command].audience].appIndex)
        return apps.count == 1
            || commandsAwaitingChannelCount < commandsMax / 2 && commandsAwaitingChannelBytes < bytesMax / 2
            || apps[appIndex].commandsAwaitingChannelCount < commandsMax / 2 / apps.count
    }

    mutating func countCommandAwaitingChannel(_ command: CommandIndex, by change: Int) {
        commandsAwaitingChannelCount += change
        commandsAwaitingChannelBytes += change * commands[command].countedBytes
        apps[Int(audiences[commands[command].audience].appIndex)].commandsAwaitingChannelCount += change
    }

    mutating func seekChannel(of command: CommandIndex) {
        let audience = audiences[commands[command].audience]
        appendChannelRequest(.sought, appIndex: audience.appIndex, audience: audience.identifier.bytes)
    }

    /// Notes the environments whose channel the store may have lost since the keeper last looked for the channel. The
    /// note stays until the keeper has looked again, even if the store has all members earlier.
    mutating func notePossiblyLostChannels(of command: CommandIndex, now: Moment) {
        guard mayStoreLackChannels(now: now) else { return }
        let foundMissingAtMilliseconds = commands[command].channelFoundMissingAtMilliseconds
        for environment in APNsEnvironment.allCases
        where foundMissingAtMilliseconds[environment] <= storeMayHaveLostDataAtMilliseconds {
            commands[command].possiblyLostEnvironmentBits |= 1 << environment.rawValue
        }
    }

    /// Whether a command must wait on, because the store may have lost a channel that the command waits for, and the
    /// app has no pause. Call ``notePossiblyLostChannels(of:now:)`` and ``pauseRestorationWaitsIfLimitReached(_:now:)``
    /// before.
    func mustAwaitRestoration(_ command: CommandIndex, now: Moment) -> Bool {
        commands[command].isAwaitedChannelPossiblyLost
            && !isRestorationWaitPaused(audiences[commands[command].audience].appIndex, now: now)
    }

    /// If the command has waited ``memberWaitMillisecondsMax`` for a channel that the store may have lost, begins a
    /// pause of its app (``pauseAfterFailedRestorationWaitMilliseconds``). During the pause, neither this command nor
    /// the app's others wait for such channels.
    mutating func pauseRestorationWaitsIfLimitReached(_ command: CommandIndex, now: Moment) {
        let waitMilliseconds = now.monotonicMilliseconds - commands[command].channelWaitBeganAtMilliseconds
        guard mustAwaitRestoration(command, now: now), waitMilliseconds >= Self.memberWaitMillisecondsMax else {
            return
        }
        apps[Int(audiences[commands[command].audience].appIndex)].restorationWaitPauseEndMilliseconds =
            now.monotonicMilliseconds + Self.pauseAfterFailedRestorationWaitMilliseconds
    }

    /// Returns since when a command has waited for a new channel (monotonic milliseconds): since its wait for the
    /// channel began or, if the keeper has later found that there is none, since then.
    func newChannelAwaitedSinceMilliseconds(_ command: CommandIndex) -> Int64 {
        let slot = commands[command]
        return APNsEnvironment.allCases.reduce(slot.channelWaitBeganAtMilliseconds) { sinceMilliseconds, environment in
            slot.awaitedEnvironmentBits & 1 << environment.rawValue == 0
                ? sinceMilliseconds
                : max(sinceMilliseconds, slot.channelFoundMissingAtMilliseconds[environment])
        }
    }

    /// Called when the registry of channels is complete, and the keeper has looked for an audience's channel in one
    /// environment. If the audience has this channel, or will get none, its command no longer waits for the channel.
    ///
    /// - Parameter isFound: whether the audience has a channel. The store then has it too.
    public mutating func handleChannelLookup(
        appIndex: UInt16,
        audience: AudienceDigest,
        environment: APNsEnvironment,
        isFound: Bool,
        now: Moment
    ) {
        apps[Int(appIndex)].restorationWaitPauseEndMilliseconds = .min
        guard let command = commandAwaitingChannel(appIndex, audience) else { return }
        if isFound || !shouldAudienceHaveChannel(command) {
            return handleKeeperResponse(appIndex: appIndex, audience: audience, environment, nil)
        }
        // The audience has no channel, but should have one. So a start or an update now waits for a new channel, and an
        // end until the keeper has noted it (`handleNotedAudienceEnd`).
        let environmentBit: UInt8 = 1 << environment.rawValue
        guard commands[command].possiblyLostEnvironmentBits & environmentBit != 0 else { return }
        commands[command].possiblyLostEnvironmentBits &= ~environmentBit
        commands[command].channelFoundMissingAtMilliseconds[environment] = now.monotonicMilliseconds
    }
}
