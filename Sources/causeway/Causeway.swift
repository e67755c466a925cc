import ArgumentParser
import CausewayCommandLine

/// The program `causeway`: the worker and the commands for operators.
@main
struct Causeway: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "causeway",
        abstract: "Sends Live Activity updates from Kafka to iPhones.",
        discussion: """
            Producers write commands to a Kafka topic: JSON records with Apple's own aps dictionary. Workers send the \
            newest state of each activity to APNs, and write the outcome of each command back to Kafka.

            Run a demo, without an account, a phone or a server:
              causeway-lab demo

            Send commands by hand, with the simulated Kafka and APNs of the program causeway-lab (see causeway-lab \
            --help):
              causeway-lab broker
              causeway-lab simulator --bootstrap-servers 127.0.0.1:40123

            Run it:
              causeway check --config causeway.yaml
              causeway worker --config causeway.yaml

            Send a first command:
              causeway send --bootstrap-servers 127.0.0.1:9092 --now command.json

            Exit codes: 0 success; 1 records or pushes failed; 64 the command line is wrong; 70 an internal \
            error; 78 the configuration is wrong.
            """,
        version: Release.version,
        subcommands: [
            WorkerCommand.self, SendCommand.self, CheckCommand.self, InspectCommand.self, ResultsCommand.self,
            HealthCommand.self, TopicsCommand.self, PlanCommand.self, ReplayCommand.self, ChannelsCommand.self,
            ConfigurationCommand.self, MetricsPageCommand.self, CapacityPageCommand.self, RecordReferenceCommand.self,
        ]
    )

    static func main() async {
        CoreDumps.prevent()
        let arguments = CommandLine.arguments
        if let message = SiblingProgram.lab.wrongProgramMessage(for: arguments) {
            exit(withError: ValidationError(message))
        }
        if let message = UnknownCommand.errorMessage(for: arguments, root: Self.self, sibling: .lab) {
            StandardStreams.printError(message)
            exit(withError: ExitCode.validationFailure)
        }
        await main(nil)
        if let failure = StandardStreams.outputFailure {
            StandardStreams.printError("causeway: standard output cannot be written: \(failure)")
            exit(withError: ExitCode.failure)
        }
    }
}
