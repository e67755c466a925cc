import ArgumentParser
import CausewayConfiguration

/// The options of a command that connects to Kafka and to no other service.
struct BrokerOptions: ParsableArguments {
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The brokers, host:port, separated by commas.", valueName: "servers")
    )
    var bootstrapServers: String?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("A worker's configuration: its brokers, properties and topics are used.", valueName: "file")
    )
    var config: String?

    func validate() throws {
        guard bootstrapServers != nil || config != nil else {
            throw ValidationError("Kafka's address is missing: add --bootstrap-servers or --config")
        }
    }

    func loadKafkaConfiguration() throws(ExitCode) -> WorkerConfiguration.Kafka {
        try ConfigurationLoading.loadKafkaConfiguration(path: config, bootstrapServers: bootstrapServers)
    }
}
