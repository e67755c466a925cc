public import Delivery
public import LiveActivity

/// Makes starts and updates wait for a missing channel of their audience, so that a start can name the channel, and an
/// update can be broadcast.
/// 1. The command is admitted.
/// 2. The command waits until the keeper of channels responds, at most two seconds.
/// 3. The command is admitted again, because the store must know how many broadcasts belong to it.
/// 4. If the channel is still missing, the audience's commands of the next minute do not wait.
///
/// So if Apple's channel management is unavailable, only one command per audience and minute waits. A command also goes
/// out without a wait if one of the limits below is reached.
extension Audiences {
    static var channelWaitMillisecondsMax: Int64 { 2_000 }
    /// The maximum number of commands that wait for a channel. At this number, a further command goes out without the
    /// missing channel; a later command of its audience may find the channel.
    static var commandsAwaitingChannelMax: Int { 1_024 }
    /// How long an audience is paused after one of its commands has waited for a channel without success. During the
    /// pause, no command of the audience begins to wait.
    static var pauseAfterFailedChannelWaitMilliseconds: Int64 { 60_000 }
    /// The maximum number of audiences that have a pause (``pauseAfterFailedChannelWaitMilliseconds``). At this number,
    /// no command of any audience begins to wait. Commands that already wait may still add pauses.
    static var channelWaitPausesMax: Int { 4_096 }
    /// While ``channelWaitPausesMax`` is reached, the core removes ended pauses at most once in this time, because each
    /// removal scans the pauses of all audiences.
    static var endedPauseRemovalIntervalMilliseconds: Int64 { 1_000 }

    /// Makes an admitted start or update wait for a missing channel of its audience, if a wait is permitted. Otherwise
    /// the command's result says why it has no channel (`channelReason`). An end never waits.
    ///
    /// - Returns: whether the command waits.
    mutating func beginWaitForMissingChannel(_ command: CommandIndex, now: Moment) -> Bool {
        let slot = commands[command]
        let audienceSlot = audiences[slot.audience]
        guard slot.event != .end,
            let rule = configuration.channelRules[audienceSlot.appIndex],
            slot.requestsChannel || rule.includes(audienceSlot.identifier.bytes)
        else { return false }
        let missingEnvironmentBits = rule.missingEnvironmentBits(in: slot.channels)
        let key = AudienceKey(appIndex: audienceSlot.appIndex, digest: audienceSlot.digest)
        guard missingEnvironmentBits != 0 else {
            channelWaitPauseEndMilliseconds[key] = nil
            commands[command].channelAbsence = nil
            return false
        }
        guard !slot.hasAwaitedChannel else {
            commands[command].channelAbsence = slot.channelAbsence ?? .notInTime
            pauseChannelWaits(key, now: now)
            return false
        }
        removeEndedChannelWaitPausesIfFull(now: now)
        guard mayAwaitChannel(key, now: now) else {
            commands[command].channelAbsence = .notAwaited
            return false
        }
        let dueMilliseconds = now.monotonicMilliseconds + Self.channelWaitMillisecondsMax
        commands[command].enter(.awaitingChannel)
        commands[command].awaitedEnvironmentBits = missingEnvironmentBits
        commands[command].channelWaitEndMilliseconds = dueMilliseconds
        commands[command].hasAwaitedChannel = true
        commandsAwaitingChannelCount += 1
        startTimer(.channelWait(command), dueMilliseconds: dueMilliseconds)
        return true
    }

    private func mayAwaitChannel(_ key: AudienceKey, now: Moment) -> Bool {
        guard commandsAwaitingChannelCount < Self.commandsAwaitingChannelMax,
            channelWaitPauseEndMilliseconds.count < Self.channelWaitPausesMax
        else {
            return false
        }
        return channelWaitPauseEndMilliseconds[key].map { $0 <= now.monotonicMilliseconds } ?? true
    }

    private mutating func pauseChannelWaits(_ key: AudienceKey, now: Moment) {
        channelWaitPauseEndMilliseconds[key] = now.monotonicMilliseconds + Self.pauseAfterFailedChannelWaitMilliseconds
    }

    /// If ``channelWaitPausesMax`` is reached, removes the pauses that have ended, but at most once in
    /// ``endedPauseRemovalIntervalMilliseconds``. If the maximum is not reached, ended pauses may stay, because they
    /// prevent no wait (`mayAwaitChannel`).
    private mutating func removeEndedChannelWaitPausesIfFull(now: Moment) {
        guard channelWaitPauseEndMilliseconds.count >= Self.channelWaitPausesMax,
            now.monotonicMilliseconds >= channelWaitPausesRemovedAtMilliseconds
                + Self.endedPauseRemovalIntervalMilliseconds
        else { return }
        channelWaitPausesRemovedAtMilliseconds = now.monotonicMilliseconds
        channelWaitPauseEndMilliseconds = channelWaitPauseEndMilliseconds.filter {
            $0.value > now.monotonicMilliseconds
        }
    }

    /// Called when the keeper could not create or replace a channel that an audience should have.
    public mutating func channelRefused(
        appIndex: UInt16,
        audience: AudienceDigest,
        environment: APNsEnvironment,
        now: Moment
    ) {
        keeperResponseReceived(appIndex: appIndex, audience: audience, environment, .refused, now: now)
        let key = ChannelKey(appIndex: appIndex, digest: audience, environment: environment)
        if let channel = channelsByKey[key] { replacementChannelRefused(channel, now: now) }
    }

    /// Called when the keeper has provided or refused the channel of one environment. After the last awaited
    /// environment, the audience's waiting command is admitted again.
    ///
    /// - Parameter absence: why there is no channel; nil if the keeper has provided it.
    mutating func keeperResponseReceived(
        appIndex: UInt16,
        audience digest: AudienceDigest,
        _ environment: APNsEnvironment,
        _ absence: ChannelAbsence?,
        now: Moment
    ) {
        guard let audience = audiencesByKey[AudienceKey(appIndex: appIndex, digest: digest)],
            case let command = audiences[audience].currentCommand, command != .null,
            commands[command].phase == .awaitingChannel
        else { return }
        commands[command].awaitedEnvironmentBits &= ~(1 << environment.rawValue)
        if let absence { commands[command].channelAbsence = absence }
        if commands[command].awaitedEnvironmentBits == 0 { admitAgain(command) }
    }

    mutating func channelWaitTimedOut(_ command: CommandIndex) {
        commands[command].channelAbsence = .notInTime
        admitAgain(command)
    }

    private mutating func admitAgain(_ command: CommandIndex) {
        commandsAwaitingChannelCount -= 1
        commands[command].enter(.admitting)
        storeQueue.append(.admit(command))
    }
}
