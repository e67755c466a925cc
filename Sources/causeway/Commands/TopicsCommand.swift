import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import CausewayWorker
import Kafka

/// `causeway topics`: what must be there before a worker starts.
struct TopicsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract: "Print the topics that a deployment needs, or create those that are missing.",
        discussion: """
            One line a topic: its name, partitions, replication factor and settings. With --create the brokers are asked \
            which there are, and what is missing is made; a topic that is there stays as it is, and is named if it has \
            other than the planned number of partitions. The principal needs the right to create topics, which a \
            worker's need not have.

            Examples:
              causeway topics
              causeway topics --config causeway.yaml --partitions 48
              causeway topics --config causeway.yaml --create

            Exit codes: 0 they were printed, or are all there; 1 a topic could not be created; 64 the command line is \
            wrong; 78 the configuration is wrong.
            """
    )

    /// How long the brokers are waited for.
    static let timeoutMilliseconds: Int32 = 30_000

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("A worker's configuration: the names, and the way to Kafka.", valueName: "file")
    )
    var config: String?

    @Option(name: .shortAndLong, help: ArgumentHelp("Brokers, instead of the configuration's.", valueName: "host:port"))
    var bootstrapServers: String?

    @Option(help: "Partitions of commands, registrations and results, 1 to 10000.")
    var partitions = TopicPlan().partitions

    @Option(help: "Copies of each partition, 1 to 32767, or 0 for the brokers' default.")
    var replicationFactor = TopicPlan().replicationFactor

    @Option(help: "Copies that must have a record before it counts as written, 1 to 32767.")
    var minInsyncReplicas = TopicPlan().minInsyncReplicas

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
            throw ValidationError("--create: say where Kafka is: --bootstrap-servers or --config")
        }
    }

    func run() throws {
        var kafka = WorkerConfiguration.Kafka()
        if let config { kafka = try ConfigurationOption.load(path: config, requiresFiles: false).kafka }
        if let bootstrapServers { kafka.bootstrapServers = bootstrapServers }
        var plan = TopicPlan()
        plan.partitions = partitions
        plan.replicationFactor = replicationFactor
        plan.minInsyncReplicas = minInsyncReplicas
        let topics = plan.topics(kafka.topics)
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

    private static func line(_ topic: NewTopic) -> String {
        let settings = topic.settings.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
        let copies = topic.replicationFactor == 0 ? "default" : "\(topic.replicationFactor)"
        return "\(topic.name) partitions=\(topic.partitions) replication-factor=\(copies) \(settings)"
    }

    /// - Returns: whether all are there now.
    private static func create(_ topics: [NewTopic], kafka: WorkerConfiguration.Kafka) throws(KafkaError) -> Bool {
        let administrator = try TopicAdministrator(properties: kafka.producerProperties)
        defer { _ = administrator.close(deadlineMilliseconds: 5_000) }
        let found = try administrator.partitionCounts(timeoutMilliseconds: timeoutMilliseconds)
        let missing = topics.filter { found[$0.name] == nil }
        let failures =
            missing.isEmpty ? [:] : try administrator.create(missing, timeoutMilliseconds: timeoutMilliseconds)
        for topic in topics {
            if let error = failures[topic.name] {
                StandardStreams.printError("\(topic.name): \(error)")
            } else if let count = found[topic.name] {
                let differs = count == Int(topic.partitions) ? "" : ", \(topic.partitions) were planned"
                StandardStreams.printOutput("\(topic.name) is there, partitions=\(count)\(differs)")
            } else {
                StandardStreams.printOutput("\(topic.name) created, partitions=\(topic.partitions)")
            }
        }
        return failures.isEmpty
    }
}
