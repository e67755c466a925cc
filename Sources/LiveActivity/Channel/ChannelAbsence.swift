/// Why an audience had no channel when one of its commands was fanned out, although the command or the configuration
/// requests a channel. The channel may be missing in one environment or in both.
public enum ChannelAbsence: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The command waited for the channel as long as it may, usually 2 s, and the channel was not created or restored.
    case notInTime
    /// The channel could not be created. The worker's log says why.
    case refused
    /// The command did not wait for the channel, for one of these reasons:
    /// - Less than a minute ago, another command of the audience waited without success.
    /// - Too many commands wait already (`commandsAwaitingChannelMax`).
    /// - In the last minute, commands of too many audiences waited without success (`channelWaitPausesMax`).
    case notAwaited

    /// The name in results and headers.
    public var name: StaticString {
        switch self {
        case .notInTime: "notInTime"
        case .refused: "refused"
        case .notAwaited: "notAwaited"
        }
    }
}
