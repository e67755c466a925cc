import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import Kafka

/// `causeway results`: prints the results of commands as lines of JSON.
struct ResultsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "results",
        abstract: "Print the results of commands, one line of JSON each.",
        discussion: """
            Reads the results topic from its beginning to its end, or with --follow without end. It commits nothing and takes \
            no records from other consumers: each run is a group of its own. Records of one activity keep their order.

            Examples:
              causeway results -b 127.0.0.1:9092 | jq -c 'select(.outcome == "failed")'
              causeway results -c causeway.yaml --follow
              causeway results -b 127.0.0.1:9092 --topic causeway.invalidations

            The exit code is 1 if Kafka could not be read.
            """
    )

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Brokers, host:port, several separated by commas.", valueName: "servers")
    )
    var bootstrapServers: String?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("A worker's configuration, for its brokers, properties and topics.", valueName: "file")
    )
    var config: String?

    @Option(name: .shortAndLong, help: ArgumentHelp("The topic. Default: the one for results.", valueName: "name"))
    var topic: String?

    @Flag(name: .shortAndLong, help: "Continue with new records.")
    var follow = false

    func validate() throws {
        guard bootstrapServers != nil || config != nil else {
            throw ValidationError("Kafka's address is missing: add --bootstrap-servers or --config")
        }
    }

    func run() throws {
        var kafka = WorkerConfiguration.Kafka()
        if let config {
            kafka = try ConfigurationOption.load(path: config, requiresFiles: false).kafka
        }
        if let bootstrapServers { kafka.bootstrapServers = bootstrapServers }
        kafka.groupId = "causeway-results-\(UUID().uuidString.lowercased())"
        do {
            let printer = try TopicPrinter(
                properties: kafka.consumerProperties,
                topic: topic ?? kafka.topics.results,
                follows: follow
            )
            try printer.run()
        } catch {
            StandardStreams.printError("causeway results: \(error)")
            throw ExitCode.failure
        }
    }
}
