import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import LiveActivity

/// The options of every replay.
struct ReplayOptions: ParsableArguments {
    @OptionGroup var configurationFile: ConfigurationFileOption

    @Option(
        help: ArgumentHelp(
            "The time of the first record, such as 2026-07-19T15:00:00Z, or how long ago, such as 2h.",
            valueName: "time"
        )
    )
    var from: String?

    @Option(help: ArgumentHelp("The range ends before this time. Default: now.", valueName: "time"))
    var to: String?

    @Option(
        help: ArgumentHelp(
            """
            Instead of times: the first and the last offset of a partition, 0:1200-1800, or 0:1200- up to its end. \
            Repeatable.
            """,
            valueName: "partition:from-to"
        )
    )
    var offsets: [String] = []

    @Option(name: .shortAndLong, help: ArgumentHelp("The topic. Default: the commands topic.", valueName: "name"))
    var topic: String?

    @Option(help: ArgumentHelp("Only this app.", valueName: "bundle id"))
    var app: String?

    @Option(help: ArgumentHelp("Only this activity.", valueName: "id"))
    var activity: String?

    @Option(help: ArgumentHelp("Memory for the newest commands of the range, 1 to 65536.", valueName: "mebibytes"))
    var memory = 512

    @Flag(help: "Print a line for the newest command of each activity, and for each record that is invalid.")
    var verbose = false

    @Flag(help: "Print lines of JSON, for programs.")
    var json = false

    func validate() throws {
        guard (1...65_536).contains(memory) else { throw ValidationError("--memory must be 1 to 65536") }
        for (option, name) in [("--app", app), ("--activity", activity), ("--topic", topic)] where name?.isEmpty == true
        {
            throw ValidationError("\(option): the name is empty")
        }
    }

    /// Reads from the options which records to replay.
    ///
    /// - Parameter defaultFrom: the beginning of the range if the user gives neither a time nor offsets; nil: the user
    ///   must give one of them.
    func range(defaultFrom: String? = nil) throws -> ReplayRange {
        do throws(ReplayRangeError) {
            return try ReplayRange(
                from: from ?? (offsets.isEmpty ? defaultFrom : nil),
                to: to,
                offsets: offsets,
                nowMilliseconds: Clock.wallMilliseconds
            )
        } catch {
            throw ValidationError(error.message)
        }
    }

    /// Makes the ``ReplayScope``: the apps, policies and activities that the replay concerns. Also reads the files with
    /// the contracts of the apps. If `--app` is not configured, prints an error and throws.
    func makeScope(in configuration: WorkerConfiguration) throws -> ReplayScope {
        if let app, !configuration.apps.contains(where: { $0.bundleId == app }) {
            let names = configuration.apps.map(\.bundleId).joined(separator: ", ")
            StandardStreams.printError("Error: --app \(app): is not in the configuration, which has \(names)")
            throw ExitCode.validationFailure
        }
        let contractRules = configuration.apps.map { Self.readContractRule(of: $0) }
        return ReplayScope(configuration, contractRules: contractRules, app: app, activity: activity)
    }

    /// Reads the contract of an app; nil if it has none. If its file cannot be read, warns and continues: this machine
    /// perhaps lacks the file.
    private static func readContractRule(of app: WorkerConfiguration.App) -> ContractRule? {
        do throws(ShapesFileError) {
            return try app.readContractRule()
        } catch {
            StandardStreams.printError(
                "warning: \(error); so commands of \(app.bundleId) that no phone could decode are not found"
            )
            return nil
        }
    }
}
