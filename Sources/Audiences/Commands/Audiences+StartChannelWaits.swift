import Delivery
import LiveActivity

/// Lets starts wait longer for their channels while the keeper creates the channels of many audiences, for example when
/// many matches begin. An activity that begins without a channel never gets broadcasts, and its start cannot be
/// repeated. An update without a channel costs less: the next one may be broadcast.
extension Audiences {
    /// The longest wait of a start for its channel. The audience's next commands wait behind the start.
    static var startChannelWaitMillisecondsMax: Int64 { 30_000 }

    /// Whether a start must wait for its channel longer than the usual time, up to ``startChannelWaitMillisecondsMax``,
    /// because the keeper is busy with other channels: within ``usualChannelWaitMilliseconds``, it has provided a
    /// channel of the app in an environment in which the start's audience still lacks one. If it has provided none,
    /// Apple's channel management is probably unavailable. False for an update or end.
    func mustAwaitBusyKeeper(_ command: CommandIndex, now: Moment) -> Bool {
        let slot = commands[command]
        let providedAtMilliseconds = apps[Int(audiences[slot.audience].appIndex)].channelProvidedAtMilliseconds
        let providedSinceMilliseconds = now.monotonicMilliseconds - Self.usualChannelWaitMilliseconds
        let waitMilliseconds = now.monotonicMilliseconds - newChannelAwaitedSinceMilliseconds(command)
        return slot.event == .start && waitMilliseconds < Self.startChannelWaitMillisecondsMax
            && APNsEnvironment.allCases.contains {
                slot.awaitedEnvironmentBits & 1 << $0.rawValue != 0
                    && providedAtMilliseconds[$0] > providedSinceMilliseconds
            }
    }
}
