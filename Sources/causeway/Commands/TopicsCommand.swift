import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import CausewayWorker
import Kafka

/// `causeway topics`: prints or creates the topics that must exist before a worker starts.
struct TopicsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract: "Print the topics that a deployment needs, or create those that are missing.",
        discussion: """
            This command prints one line for each topic: its name, partitions, replication factor and settings. \
            --create creates the topics that do not exist. It does not change existing topics; the output says if the \
            number of partitions is not the expected one. The Kafka user needs the right to create topics, which a \
            worker's user does not need.

            Examples:
              causeway topics
              causeway topics --config causeway.yaml --partitions 48
              causeway topics --config causeway.yaml --create
              causeway topics --topic commands:partitions=48,retention-hours=12 --topic channels:partitions=3

            Exit codes: 0 printed, or all topics exist; 1 a topic could not be created; 64 the command line is \
            wrong; 78 the configuration is wrong.
            """
    )

    /// How long to wait for the first broker, and then for each request.
    static let timeoutMilliseconds: Int32 = 30_000

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("A worker's configuration: its topics and brokers are used.", valueName: "file")
    )
    var config: String?

    @Option(name: .shortAndLong, help: ArgumentHelp("Brokers; overrides the configuration.", valueName: "host:port"))
    var bootstrapServers: String?

    @Option(help: "Partitions of commands, registrations, results, deferred and fanout, 1 to 10000.")
    var partitions = TopicPlan().partitionCount

    @Option(help: "Copies of each partition, 1 to 32767, or 0 for the brokers' default.")
    var replicationFactor = TopicPlan().replicationFactor

    @Option(help: "Copies that must have a record before Kafka acknowledges it, 1 to 32767.")
    var minInsyncReplicas = TopicPlan().minInsyncReplicas

    @Option(
        name: .customLong("topic"),
        help: ArgumentHelp(
            "Size of one topic, by its key in kafka.topics: partitions=NUMBER,retention-hours=NUMBER. Repeatable.",
            valueName: "key:sizes"
        ),
        transform: TopicsCommand.parseSizeOverride
    )
    var sizes: [TopicSizeOverride] = []

    @Flag(help: "Create the topics that are missing.")
    var create = false

    func validate() throws {
        guard (1...10_000).contains(partitions) else { throw ValidationError("--partitions must be 1 to 10000") }
        guard (0...32_767).contains(replicationFactor) else {
            throw ValidationError("--replication-factor must be 0 to 32767")
        }
        guard (1...32_767).contains(minInsyncReplicas),
            replicationFactor == 0 || minInsyncReplicas <= replicationFactor
        else { throw ValidationError("--min-insync-replicas must be 1 to --replication-factor") }
        guard !create || config != nil || bootstrapServers != nil else {
            throw ValidationError("--create: Kafka's address is missing: add --bootstrap-servers or --config")
        }
    }

    func run() throws {
        let kafka = try ConfigurationLoading.loadKafkaConfiguration(path: config, bootstrapServers: bootstrapServers)
        var plan = TopicPlan()
        plan.partitionCount = partitions
        plan.replicationFactor = replicationFactor
        plan.minInsyncReplicas = minInsyncReplicas
        plan.sizeOverrides = sizes
        let topics = plan.makeTopics(kafka.topics)
        guard create else {
            for topic in topics { StandardStreams.printOutput(Self.line(topic)) }
            return
        }
        do {
            guard try Self.create(topics, kafka: kafka) else { throw ExitCode.failure }
        } catch let error as KafkaError {
            StandardStreams.printError("causeway topics: \(error)")
            throw ExitCode.failure
        }
    }

    private static func parseSizeOverride(_ text: String) throws -> TopicSizeOverride {
        do {
            return try TopicSizeOverride(text: text)
        } catch {
            throw ValidationError(error.description)
        }
    }

    private static func line(_ topic: NewTopic) -> String {
        let settings = topic.settings.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
        let copies = topic.replicationFactor == 0 ? "default" : "\(topic.replicationFactor)"
        return "\(topic.name) partitions=\(topic.partitionCount) replication-factor=\(copies) \(settings)"
    }

    /// Creates the topics that the brokers do not have, and prints a line about each topic.
    ///
    /// - Returns: whether all topics exist now.
    private static func create(_ topics: [NewTopic], kafka: WorkerConfiguration.Kafka) throws(KafkaError) -> Bool {
        let properties = try kafka.producerProperties
        let brokerMonitor = BrokerMonitor(of: "causeway topics", properties: properties)
        let administrator = try TopicAdministrator(properties: properties, eventHandler: brokerMonitor)
        defer { _ = administrator.close(timeoutMilliseconds: 5_000) }
        guard
            administrator.awaitBroker(
                timeoutMilliseconds: timeoutMilliseconds,
                { brokerMonitor.printIfUnreached(false) }
            )
        else {
            throw brokerMonitor.noBrokerError
        }
        let partitionCounts = try administrator.fetchPartitionCounts(
            of: topics.map(\.name),
            timeoutMilliseconds: timeoutMilliseconds
        )
        let missingTopics = topics.filter { partitionCounts[$0.name] == nil }
        let failures =
            missingTopics.isEmpty
            ? [:] : try administrator.create(missingTopics, timeoutMilliseconds: timeoutMilliseconds)
        for topic in topics {
            if let error = failures[topic.name] {
                StandardStreams.printError("\(topic.name): \(error)")
            } else if let count = partitionCounts[topic.name] {
                let differenceText = count == Int(topic.partitionCount) ? "" : ", expected \(topic.partitionCount)"
                StandardStreams.printOutput("\(topic.name) exists, partitions=\(count)\(differenceText)")
            } else {
                StandardStreams.printOutput("\(topic.name) created, partitions=\(topic.partitionCount)")
            }
        }
        return failures.isEmpty
    }
}
