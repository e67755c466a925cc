/// Why an audience that is to have a channel had none when one of its commands was fanned out.
public enum ChannelAbsence: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The command has waited for the channel for as long as a command may.
    case notInTime
    /// The channel could not be created: the worker's log says why.
    case refused
    /// The command did not wait: another command of the audience timed out less than a minute ago, or too many commands wait.
    case notAwaited

    /// As results and headers spell it.
    public var name: StaticString {
        switch self {
        case .notInTime: "notInTime"
        case .refused: "refused"
        case .notAwaited: "notAwaited"
        }
    }
}
