/// The last commands of each activity, by which a push is recognized. An hour has too many to keep all.
struct RecentCommands {
    /// What is pushed later than this many commands is not recognized, and counts as older than all.
    private static let perActivity = 32

    private var commands: [String: [OutageHistory.Command]] = [:]

    mutating func append(_ command: OutageHistory.Command) {
        Self.append(command, to: &commands[command.activity, default: []])
    }

    private static func append(_ command: OutageHistory.Command, to recent: inout [OutageHistory.Command]) {
        if recent.count == perActivity { recent.removeFirst(perActivity / 2) }
        recent.append(command)
    }

    /// The command that a push carries; nil if it is none of the last.
    func command(of push: OutageHistory.Push) -> OutageHistory.Command? {
        commands[push.activity]?.last { $0.state == push.state }
    }

    func newest(of activity: String) -> OutageHistory.Command? { commands[activity]?.last }

    var newest: [OutageHistory.Command] { commands.values.compactMap(\.last) }
}
