import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Glibc
import Kafka

/// `causeway-lab broker`: an embedded Kafka for the demo, tests and first steps.
struct BrokerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broker",
        abstract: "Run an embedded Kafka broker, in memory, on loopback.",
        discussion: """
            This command runs librdkafka's mock cluster with Causeway's topics. It keeps 5 MiB of each partition in \
            memory. It is for experiments, not for production. When it is ready, it prints one line of JSON: \
            {"bootstrapServers":"127.0.0.1:40123"}

            Example:
              causeway-lab broker --partitions 8 --topic my.results:1
            """
    )

    @Option(help: "Partitions of every topic without a number of its own, 1 to 10000.")
    var partitions = 4

    @Option(
        help: ArgumentHelp(
            "Another topic, or one of Causeway's with another number of partitions. Repeatable.",
            valueName: "name[:partitions]"
        )
    )
    var topic: [String] = []

    @Option(help: "Delay of every response in milliseconds, like a network delay, 0 to 10000.")
    var roundTrip = 0

    @Flag(help: "Stop when standard input ends, as it does when the parent process ends.")
    var untilInputEnds = false

    func validate() throws {
        guard (1...10_000).contains(partitions) else {
            throw ValidationError("--partitions must be 1 to 10000")
        }
        guard (0...10_000).contains(roundTrip) else {
            throw ValidationError("--round-trip must be 0 to 10000")
        }
        _ = try parsePartitionCounts()
    }

    func run() throws {
        let signal = TerminationSignal()
        let broker = try EmbeddedBroker(defaultPartitionCount: partitions)
        for (name, count) in try parsePartitionCounts().sorted(by: { $0.key < $1.key }) {
            try broker.createTopic(name, partitionCount: count)
        }
        if roundTrip > 0 { try broker.setRoundTripTime(milliseconds: roundTrip) }
        StandardStreams.printOutput("{\"bootstrapServers\":\"\(broker.bootstrapServers)\"}")
        signal.blockUntilArrival(orEndOf: untilInputEnds ? STDIN_FILENO : nil)
    }

    /// Returns the number of partitions of each topic.
    private func parsePartitionCounts() throws -> [String: Int] {
        let topicNames = WorkerConfiguration.Kafka.Topics()
        let names = [
            topicNames.commands, topicNames.registrations, topicNames.results, topicNames.invalidations,
            topicNames.deadLetters, topicNames.deferred, topicNames.fanout,
            topicNames.channels,
        ]
        var topics = Dictionary(uniqueKeysWithValues: names.map { ($0, partitions) })
        for text in topic {
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let count = parts.count == 1 ? partitions : Int(parts[1])
            guard !parts[0].isEmpty, let count, (1...10_000).contains(count) else {
                throw ValidationError("--topic \(text): must be a name, or a name:number with 1 to 10000")
            }
            topics[String(parts[0])] = count
        }
        return topics
    }
}
