import ArgumentParser
import CausewayCommandLine
import Foundation
import RecordReference

/// `causeway record-reference`: writes all files that are generated from the formats of records and the outcomes of
/// commands, for developers.
struct RecordReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record-reference",
        abstract: "Write the files that are generated from the formats of records and the outcomes of commands.",
        shouldDisplay: false
    )

    @Argument(help: ArgumentHelp("The root of the repository.", valueName: "directory"))
    var root = "."

    func run() throws {
        for file in ReferenceFile.all(version: Release.version) {
            let url = URL(fileURLWithPath: root).appending(path: file.path)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(file.text.utf8).write(to: url)
        }
    }
}
