/// Why an audience lacked a channel that it should have, in one environment or both, when one of its commands was
/// fanned out.
public enum ChannelAbsence: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The channel was not created within the longest time that a command may wait for it.
    case notInTime
    /// The channel could not be created. The worker's log says why.
    case refused
    /// The command did not wait for the channel: another command of the audience has waited without success less than
    /// a minute ago, too many commands wait already, or too many audiences have had commands that waited without
    /// success.
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
