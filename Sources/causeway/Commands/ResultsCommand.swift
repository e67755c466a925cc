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
            This command reads the results topic from its beginning to its end, or with --follow until you stop it. It \
            commits no offsets and does not affect other consumers, because each run is a group of its own. Records of \
            one activity keep their order.

            Examples:
              causeway results -b 127.0.0.1:9092 | jq -c 'select(.outcome == "failed")'
              causeway results -c causeway.yaml --follow
              causeway results -b 127.0.0.1:9092 --topic causeway.invalidations

            The exit code is 1 if the topic does not exist or Kafka could not be read.
            """
    )

    @OptionGroup var brokers: BrokerOptions

    @Option(name: .shortAndLong, help: ArgumentHelp("The topic. Default: the results topic.", valueName: "name"))
    var topic: String?

    @Flag(name: .shortAndLong, help: "Continue to print new records.")
    var follow = false

    func run() throws {
        var kafka = try brokers.loadKafkaConfiguration()
        kafka.groupId = "causeway-results-\(UUID().uuidString.lowercased())"
        do {
            let printer = try TopicPrinter(
                properties: kafka.consumerProperties,
                topic: topic ?? kafka.topics.results,
                follows: follow
            )
            try printer.printRecords()
        } catch {
            StandardStreams.printError("causeway results: \(error)")
            throw ExitCode.failure
        }
    }
}
