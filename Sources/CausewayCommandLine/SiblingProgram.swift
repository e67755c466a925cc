/// The name and the commands of a program, `causeway` or `causeway-lab`. If a user calls one program with a command of
/// the other, the error message names the right one.
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

    /// Returns a message that names this program, if the command or the help topic of a command line belongs to this
    /// program; else nil.
    package func wrongProgramMessage(for arguments: [String]) -> String? {
        let words = arguments.dropFirst()
        let command = words.first == "help" ? words.dropFirst().first : words.first
        guard let command, commands.contains(command) else { return nil }
        return "\(command) is a command of another program: \(name) \(command)"
    }
}
