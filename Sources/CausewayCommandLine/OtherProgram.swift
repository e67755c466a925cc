/// The commands of the other program of the two, for a line that was typed at this one.
package struct OtherProgram: Sendable {
    package let name: String
    package let commands: [String]

    package init(name: String, commands: [String]) {
        self.name = name
        self.commands = commands
    }

    /// What to say to a command line whose command, or the command that help is asked for, is one of the other program; else nil.
    package func refusal(of arguments: [String]) -> String? {
        let words = arguments.dropFirst()
        let command = words.first == "help" ? words.dropFirst().first : words.first
        guard let command, commands.contains(command) else { return nil }
        return "\(command) is a command of another program: \(name) \(command)"
    }
}
