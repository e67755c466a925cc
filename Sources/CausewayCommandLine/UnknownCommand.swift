import ArgumentParser
import CausewayConfiguration

/// Recognizes a command that does not exist, and suggests another one. ArgumentParser does not do this: it ignores an
/// unknown command after `help`, and if an unknown command has options, it reports only the options.
package enum UnknownCommand {
    /// Returns the error, the usage and a hint to the help, if the command or the help topic does not exist; else nil.
    ///
    /// - Parameters:
    ///   - root: this program's root command. Commands with subcommands must not have arguments of their own, because
    ///     each word after such a command is taken as a subcommand.
    ///   - sibling: the other program, whose commands are also suggested.
    package static func errorMessage(
        for arguments: [String],
        root: any ParsableCommand.Type,
        sibling: SiblingProgram
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
                let siblingCommands = command == root ? sibling.commands : []
                return """
                    Error: \(path) has no command \
                    \(word)\(suggestion(for: word, path, names, sibling.name, siblingCommands))
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
        _ siblingName: String,
        _ siblingCommands: [String]
    ) -> String {
        guard let nearest = NearestName.find(nearestTo: word, among: names + siblingCommands) else {
            return "; its commands are \(names.joined(separator: ", "))"
        }
        // If both programs have an equally similar command, suggest that of this program.
        let ownCommand = names.first { NearestName.editDistance(word, $0) == NearestName.editDistance(word, nearest) }
        return "; did you mean \(ownCommand.map { "\(path) \($0)" } ?? "\(siblingName) \(nearest)")?"
    }
}
