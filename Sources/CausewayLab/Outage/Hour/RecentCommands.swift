/// The last commands of each activity, to recognize pushes. An hour has too many commands to keep all.
struct RecentCommands {
    /// A push that comes after this many further commands is not recognized, and counts as older than all.
    private static let perActivity = 32

    private var commands: [String: [OutageHistory.Command]] = [:]

    mutating func append(_ command: OutageHistory.Command) {
        Self.append(command, to: &commands[command.activity, default: []])
    }

    private static func append(_ command: OutageHistory.Command, to recent: inout [OutageHistory.Command]) {
        if recent.count == perActivity { recent.removeFirst(perActivity / 2) }
        recent.append(command)
    }

    /// The command that a push carries; nil if it is not among the last ones.
    func command(of push: OutageHistory.Push) -> OutageHistory.Command? {
        commands[push.activity]?.last { $0.state == push.state }
    }

    func newest(of activity: String) -> OutageHistory.Command? { commands[activity]?.last }

    var newest: [OutageHistory.Command] { commands.values.compactMap(\.last) }
}
