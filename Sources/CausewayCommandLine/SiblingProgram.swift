/// The commands of `causeway` or `causeway-lab`. With them, the other program recognizes a command
/// that it does not have.
package struct SiblingProgram: Sendable {
    package static let causeway = SiblingProgram(
        name: "causeway",
        commands: [
            "worker", "send", "check", "inspect", "results", "health", "topics", "plan", "replay", "channels",
            "configuration",
        ]
    )
    package static let lab = SiblingProgram(
        name: "causeway-lab",
        commands: ["demo", "simulator", "broker", "backlog", "outage", "outage-hour", "fanout"]
    )

    package let name: String
    package let commands: [String]

    package init(name: String, commands: [String]) {
        self.name = name
        self.commands = commands
    }

    /// Returns the message for a command line whose command or help topic belongs to this program; else nil.
    package func refusal(of arguments: [String]) -> String? {
        let words = arguments.dropFirst()
        let command = words.first == "help" ? words.dropFirst().first : words.first
        guard let command, commands.contains(command) else { return nil }
        return "\(command) is a command of another program: \(name) \(command)"
    }
}
