import ArgumentParser
import CausewayCommandLine

/// The program `causeway-lab`, for experiments.
@main
struct CausewayLab: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "causeway-lab",
        abstract: "Simulates Kafka, APNs and phones, to try causeway.",
        discussion: """
            Do not use this program in production. Commands that run a worker need the program causeway in the same \
            directory.

            Run a demo, without an account, a phone or a server:
              causeway-lab demo

            Simulate Kafka and APNs for a worker of your own:
              causeway-lab broker
              causeway-lab simulator --bootstrap-servers 127.0.0.1:40123

            Exit codes: 0 success; 1 failure; 64 the command line is wrong.
            """,
        version: Release.version,
        subcommands: [
            DemoCommand.self, SimulatorCommand.self, BrokerCommand.self, BacklogCommand.self, OutageCommand.self,
            OutageHourCommand.self, FanoutCommand.self,
        ]
    )

    static func main() async {
        let arguments = CommandLine.arguments
        if let message = SiblingProgram.causeway.wrongProgramMessage(for: arguments) {
            exit(withError: ValidationError(message))
        }
        if let message = UnknownCommand.errorMessage(for: arguments, root: Self.self, sibling: .causeway) {
            StandardStreams.printError(message)
            exit(withError: ExitCode.validationFailure)
        }
        await main(nil)
    }
}
