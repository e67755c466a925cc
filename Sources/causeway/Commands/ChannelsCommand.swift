import APNs
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import CausewayWorker
import LiveActivity

/// `causeway channels`: shows and manages the broadcast channels of audiences.
struct ChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channels",
        abstract: "Show and manage the broadcast channels of audiences.",
        discussion: """
            A worker creates an audience's channel when a command needs it, and deletes the channel some time after \
            the audience has ended. With these commands you show, create and delete channels yourself.

            Examples:
              causeway channels list -c causeway.yaml
              causeway channels show -c causeway.yaml match-42
              causeway channels create -c causeway.yaml match-42
              causeway channels delete -c causeway.yaml match-42
              causeway channels reconcile -c causeway.yaml

            Exit codes: 0 success; 1 failure, or the channel is unknown; 64 the command line is wrong; 78 the \
            configuration is wrong.
            """,
        subcommands: [
            ListChannelsCommand.self, ShowChannelCommand.self, CreateChannelCommand.self, DeleteChannelCommand.self,
            ReconcileChannelsCommand.self,
        ]
    )
}

/// The options that choose an app and an environment.
struct ChannelOptions: ParsableArguments {
    @OptionGroup var configurationFile: ConfigurationFileOption

    @Option(help: ArgumentHelp("The app; optional if there is only one.", valueName: "bundle id"))
    var app: String?

    @Option(help: "production or sandbox; optional if the app has channels in only one.")
    var environment: String?

    /// Calls `body` with a channel keeper, and with the one app and environment that the options choose. Closes the
    /// keeper afterwards.
    ///
    /// - Throws: a `ValidationError` if the options do not choose exactly one app and environment. An `ExitCode`, after
    ///   printing the reason, if the configuration is wrong or allows no channels, or if `body` throws a
    ///   ``ChannelFailure``.
    /// - Parameter name: the name of the subcommand, for messages.
    func withKeeper(_ name: String, _ body: (ChannelKeeper, AppEnvironment) async throws -> Void) async throws {
        let configuration = try configurationFile.load(requiresFiles: true)
        let keeper: ChannelKeeper?
        do {
            keeper = try ChannelKeeper.make(configuration) { event in Self.print(event, name) }
        } catch {
            StandardStreams.printError("causeway channels \(name): \(error)")
            throw ExitCode.configurationFault
        }
        guard let keeper else {
            StandardStreams.printError("causeway channels \(name): no configured app has an environment with channels")
            throw ExitCode.configurationFault
        }
        let appEnvironments = await keeper.appEnvironments
            .filter { (app == nil || $0.app == app) && (environment == nil || $0.environment == environment) }
        guard appEnvironments.count == 1 else {
            let choices = await keeper.appEnvironments.map { "\($0.app) \($0.environment)" }.joined(separator: ", ")
            throw ValidationError("choose one app and environment with --app and --environment: \(choices)")
        }
        do {
            try await body(keeper, appEnvironments[0])
            await keeper.close()
        } catch {
            await keeper.close()
            guard let failure = error as? ChannelFailure else { throw error }
            StandardStreams.printError("causeway channels \(name): \(failure.reason)")
            throw ExitCode.failure
        }
    }

    private static func print(_ event: ChannelEvent, _ name: String) {
        switch event {
        case .lost(let entry): StandardStreams.printError("\(entry.audience): APNs does not have \(entry.channel)")
        case .failed(let reason, _, _): StandardStreams.printError("causeway channels \(name): \(reason)")
        default: break
        }
    }
}

struct ListChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the audiences that have channels.",
        discussion: "One line for each audience: the audience, its channel, the storage, the creation time, the state."
    )

    @OptionGroup var options: ChannelOptions

    @Flag(help: "Print one line of JSON for each channel, as in the channels topic.")
    var json = false

    func run() async throws {
        try await options.withKeeper("list") { keeper, appEnvironment in
            let content = try await keeper.readRegistry(appEnvironment)
            for entry in content.entries {
                StandardStreams.printOutput(
                    json ? String(decoding: entry.recordValue, as: UTF8.self) : entry.textLine
                )
            }
            if !json {
                let channelCount = content.entries.count + content.unreadableEntries.count
                StandardStreams.printOutput(
                    """
                    \(appEnvironment.app) has \(channelCount) of at most \(Limits.channelsPerAppMax) channels in \
                    \(appEnvironment.environment)
                    """
                )
            }
            if !content.unreadableEntries.isEmpty { throw ExitCode.failure }
        }
    }
}

struct ShowChannelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one audience's channel, and whether APNs has it."
    )

    @OptionGroup var options: ChannelOptions

    @Argument(help: "The audience.")
    var audience: String

    func run() async throws {
        try await options.withKeeper("show") { keeper, appEnvironment in
            guard let (entry, existsAtAPNs) = try await keeper.inspect(audience, appEnvironment) else {
                StandardStreams.printError(
                    "\(audience) has no channel in \(appEnvironment.app) \(appEnvironment.environment)"
                )
                throw ExitCode.failure
            }
            StandardStreams.printOutput(entry.textLine)
            StandardStreams.printOutput(
                existsAtAPNs ? "APNs has it" : "APNs does not have it; causeway channels reconcile creates it again"
            )
            if !existsAtAPNs { throw ExitCode.failure }
        }
    }
}

struct CreateChannelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create an audience's channel, unless it has one."
    )

    @OptionGroup var options: ChannelOptions

    @Argument(help: "The audience.")
    var audience: String

    func run() async throws {
        try await options.withKeeper("create") { keeper, appEnvironment in
            StandardStreams.printOutput((try await keeper.create(audience, appEnvironment)).textLine)
        }
    }
}

struct DeleteChannelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete an audience's channel permanently. Its subscribers get no more broadcasts."
    )

    @OptionGroup var options: ChannelOptions

    @Argument(help: "The audience.")
    var audience: String

    func run() async throws {
        try await options.withKeeper("delete") { keeper, appEnvironment in
            guard let entry = try await keeper.delete(audience, appEnvironment) else {
                StandardStreams.printError(
                    "\(audience) has no channel in \(appEnvironment.app) \(appEnvironment.environment)"
                )
                throw ExitCode.failure
            }
            StandardStreams.printOutput("\(entry.audience): \(entry.channel) is deleted")
        }
    }
}

struct ReconcileChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reconcile",
        abstract: "Compare APNs' list of channels with the known ones, and repair the differences.",
        discussion: """
            This command deletes channels that a crash left without an owner, and channels whose deletion is due. It \
            creates channels again that another program deleted. It counts channels of other programs and does not \
            change them. A worker does the same once a day, and soon after a creation whose outcome is unknown.
            """
    )

    @OptionGroup var options: ChannelOptions

    @Flag(help: "Also delete all unknown channels, including those of other programs.")
    var deleteUnknown = false

    func run() async throws {
        try await options.withKeeper("reconcile") { keeper, appEnvironment in
            let reconciliation = try await keeper.reconcile(appEnvironment, deletesUnknownChannels: deleteUnknown)
            StandardStreams.printOutput(
                """
                deleted without an owner: \(reconciliation.channelsToDelete.count), deleted when due: \
                \(reconciliation.entriesToDelete.count), created again: \(reconciliation.lostEntries.count), \
                published: \(reconciliation.unpublishedEntries.count), of other programs: \
                \(reconciliation.possiblyForeignChannels.count)
                """
            )
            if reconciliation.mayHaveCreationUnderWay {
                StandardStreams.printError(
                    "workers are creating channels, so unknown channels were not deleted. Run this command again later"
                )
                throw ExitCode.failure
            }
            if reconciliation.hasUnreadableChannel {
                StandardStreams.printError(
                    """
                    the channel of a registry entry cannot be read, so unknown channels were not deleted. Correct the \
                    entry, and run this command again
                    """
                )
                throw ExitCode.failure
            }
        }
    }
}

extension ChannelEntry {
    /// One line of text about the channel, from its entry in the registry.
    fileprivate var textLine: String {
        let nowWallMilliseconds = Clock.wallMilliseconds
        let deletionText =
            deletionDueWallMilliseconds.map { ", deleted \(TimeText.relative($0, to: nowWallMilliseconds))" } ?? ""
        return "\(audience) \(channel) storage=\(storage.rawValue) \(state.rawValue), "
            + "created \(TimeText.relative(createdAtWallMilliseconds, to: nowWallMilliseconds))\(deletionText)"
    }
}
