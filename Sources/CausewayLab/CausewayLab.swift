import ArgumentParser
import CausewayCommandLine

/// The program for trying things out.
@main
struct CausewayLab: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "causeway-lab",
        abstract: "Stands in for Kafka, APNs and phones, so that causeway can be tried out.",
        discussion: """
            Nothing here is for production. What runs a worker starts the program causeway, which must lie beside this one.

            See it work, without an account, a phone or a server:
              causeway-lab demo

            Parts to try a worker on:
              causeway-lab broker
              causeway-lab simulator --bootstrap-servers 127.0.0.1:40123

            Exit codes: 0 all went well; 1 it did not; 64 the command line is wrong.
            """,
        version: Release.version,
        subcommands: [
            DemoCommand.self, SimulatorCommand.self, BrokerCommand.self, BacklogCommand.self, OutageCommand.self,
            OutageHourCommand.self, FanoutCommand.self,
        ]
    )

    private static let production = OtherProgram(
        name: "causeway",
        commands: ["worker", "send", "check", "inspect", "results", "health", "topics", "plan"]
    )

    static func main() async {
        if let refusal = production.refusal(of: CommandLine.arguments) { exit(withError: ValidationError(refusal)) }
        await main(nil)
    }
}
