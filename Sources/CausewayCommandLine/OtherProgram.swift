/// The commands of the other of our two programs, to recognize one that was typed at the wrong program.
package struct OtherProgram: Sendable {
    package let name: String
    package let commands: [String]

    package init(name: String, commands: [String]) {
        self.name = name
        self.commands = commands
    }

    /// The message for a command line whose command, or whose help topic, belongs to the other program; else nil.
    package func refusal(of arguments: [String]) -> String? {
        let words = arguments.dropFirst()
        let command = words.first == "help" ? words.dropFirst().first : words.first
        guard let command, commands.contains(command) else { return nil }
        return "\(command) is a command of another program: \(name) \(command)"
    }
}
