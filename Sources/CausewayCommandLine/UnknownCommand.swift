import ArgumentParser
import CausewayConfiguration

/// Recognizes a command that does not exist. The parser itself suggests nothing, takes `help` with such a command for `help` alone, and
/// blames the options behind it.
package enum UnknownCommand {
    /// The error, the usage and the help to read for a command line, or a help topic, with a command that does not exist; else nil.
    ///
    /// - Parameters:
    ///   - root: the program. Its commands with subcommands take no arguments of their own.
    ///   - other: the other program, whose commands are suggested too.
    package static func refusal(
        of arguments: [String],
        root: any ParsableCommand.Type,
        other: SiblingProgram
    ) -> String? {
        var words = arguments.dropFirst()
        if words.first == "help" { words = words.dropFirst() }
        var command: any ParsableCommand.Type = root
        var path = root._commandName
        for word in words {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = subcommands.first(where: { $0._commandName == word }) else {
                let names = subcommands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
                let others = command == root ? other.commands : []
                return """
                    Error: \(path) has no command \(word)\(suggestion(for: word, path, names, other.name, others))
                    Usage: \(path) <subcommand>
                      See '\(path) --help' for more information.
                    """
            }
            command = next
            path += " \(word)"
        }
        return nil
    }

    private static func suggestion(
        for word: String,
        _ path: String,
        _ names: [String],
        _ otherName: String,
        _ others: [String]
    ) -> String {
        guard let near = Spelling.nearest(to: word, among: names + others) else {
            return "; its commands are \(names.joined(separator: ", "))"
        }
        // As near as a command of the other program is good enough.
        let own = names.first { Spelling.distance(word, $0) == Spelling.distance(word, near) }
        return "; did you mean \(own.map { "\(path) \($0)" } ?? "\(otherName) \(near)")?"
    }
}
