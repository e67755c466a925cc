/// Keeps the last commands of each activity, to find the command of a push by its state. An hour has too many commands
/// to keep all.
struct RecentCommands {
    /// The maximum number of commands that are kept for each activity. When an activity has so many, the older half is
    /// removed. A push of a removed command counts as older than the kept ones.
    private static let commandsPerActivityMax = 32

    private var commandsByActivity: [String: [OutageHistory.Command]] = [:]

    mutating func append(_ command: OutageHistory.Command) {
        Self.append(command, to: &commandsByActivity[command.activity, default: []])
    }

    private static func append(_ command: OutageHistory.Command, to recent: inout [OutageHistory.Command]) {
        if recent.count == commandsPerActivityMax { recent.removeFirst(commandsPerActivityMax / 2) }
        recent.append(command)
    }

    /// Returns the command that has the same state as the push; nil if no kept command has this state.
    func command(of push: OutageHistory.Push) -> OutageHistory.Command? {
        commandsByActivity[push.activity]?.last { $0.stateDigest == push.stateDigest }
    }

    func newestCommand(of activity: String) -> OutageHistory.Command? { commandsByActivity[activity]?.last }

    var newestCommands: [OutageHistory.Command] { commandsByActivity.values.compactMap(\.last) }
}
