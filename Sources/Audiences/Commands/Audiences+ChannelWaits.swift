public import Delivery
public import LiveActivity

/// The first command of an audience waits for the audience's broadcast channel, so that a start can name the channel and nothing is sent
/// twice.
///
/// The command waits after its admission. When the keeper has answered, the command is admitted again, so that the store counts the
/// broadcasts that now exist. A command waits two seconds at most, even if the service that manages channels is away. After a wait
/// without a channel, commands of that audience do not wait for a minute.
extension Audiences {
    static var channelWaitMilliseconds: Int64 { 2_000 }
    /// Commands that may wait at the same time. Others go on without their channel, and later commands find it.
    static var channelWaitersMax: Int { 1_024 }
    /// How long no command of an audience waits after one has waited without getting a channel.
    static var channelPatienceMilliseconds: Int64 { 60_000 }
    /// Audiences for which such a wait is remembered. At this number no command waits.
    static var channelWaitsInVainMax: Int { 4_096 }

    /// Whether a command that was admitted waits for its audience's channel now.
    ///
    /// If the audience needs a channel, has none, and the command does not wait, the command's result says why. An end needs no channel.
    mutating func awaitsChannel(_ command: UInt32, now: Moment) -> Bool {
        let slot = commands[command]
        let audience = audiences[slot.audience]
        guard slot.event != .end,
            let rule = configuration.channelRules[audience.application],
            slot.asksForChannel || rule.includes(audience.identifier.bytes)
        else { return false }
        let missing = rule.missing(in: slot.channels)
        let key = AudienceKey(application: audience.application, digest: audience.digest)
        guard missing != 0 else {
            channelWaitsInVain[key] = nil
            commands[command].channelAbsence = nil
            return false
        }
        guard !slot.hasAwaitedChannel else {
            commands[command].channelAbsence = slot.channelAbsence ?? .notInTime
            remember(key, now: now)
            return false
        }
        guard mayAwaitChannel(key, now: now) else {
            commands[command].channelAbsence = .notAwaited
            return false
        }
        let due = now.monotonicMilliseconds + Self.channelWaitMilliseconds
        commands[command].stage = .awaitingChannel
        commands[command].awaitedChannels = missing
        commands[command].channelDueMilliseconds = due
        commands[command].hasAwaitedChannel = true
        channelWaiters += 1
        timers.append(TimerQueue.Entry(dueMilliseconds: due, owner: .channelWait, index: command))
        return true
    }

    private func mayAwaitChannel(_ key: AudienceKey, now: Moment) -> Bool {
        guard channelWaiters < Self.channelWaitersMax, channelWaitsInVain.count < Self.channelWaitsInVainMax else {
            return false
        }
        return channelWaitsInVain[key].map { $0 <= now.monotonicMilliseconds } ?? true
    }

    private mutating func remember(_ key: AudienceKey, now: Moment) {
        if channelWaitsInVain.count >= Self.channelWaitsInVainMax / 2 {
            channelWaitsInVain = channelWaitsInVain.filter { $0.value > now.monotonicMilliseconds }
        }
        channelWaitsInVain[key] = now.monotonicMilliseconds + Self.channelPatienceMilliseconds
    }

    /// The keeper of channels could not create a channel that an audience needs.
    public mutating func channelRefused(
        application: UInt16,
        audience: AudienceDigest,
        environment: DeviceEnvironment,
        now: Moment
    ) {
        channelAnswered(application: application, audience: audience, environment, .refused, now: now)
    }

    mutating func channelAnswered(
        application: UInt16,
        audience digest: AudienceDigest,
        _ environment: DeviceEnvironment,
        _ absence: ChannelAbsence?,
        now: Moment
    ) {
        guard let audience = audienceIndex[AudienceKey(application: application, digest: digest)],
            case let command = audiences[audience].current, command != .max,
            commands[command].stage == .awaitingChannel
        else { return }
        commands[command].awaitedChannels &= ~(1 << environment.rawValue)
        if let absence { commands[command].channelAbsence = absence }
        if commands[command].awaitedChannels == 0 { admitAgain(command) }
    }

    mutating func channelWaitOver(_ command: UInt32, dueMilliseconds: Int64, now: Moment) {
        guard commands.isInUse(command), commands[command].stage == .awaitingChannel,
            commands[command].channelDueMilliseconds == dueMilliseconds
        else { return }
        commands[command].channelAbsence = .notInTime
        admitAgain(command)
    }

    private mutating func admitAgain(_ command: UInt32) {
        channelWaiters -= 1
        commands[command].stage = .admitting
        storeQueue.append(AudienceTicket(.admit, index: command))
    }
}
