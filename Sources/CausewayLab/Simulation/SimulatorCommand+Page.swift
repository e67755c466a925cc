import APNsSimulator
import CausewayConfiguration
import Foundation
import Kafka

/// The live page of a simulator without a demo.
extension SimulatorCommand {
    /// Returns what the options say about the worker. Reads the worker's configuration now, to report a faulty file
    /// before the simulator starts.
    func makeWorkerAccess() throws -> SimulatorPage.WorkerAccess {
        var workerAccess = SimulatorPage.WorkerAccess()
        if let config {
            let kafka = try readConfiguration(at: config).kafka
            workerAccess.resultsSource = SimulatorPage.ResultsSource(
                properties: try kafka.consumerProperties,
                topic: kafka.topics.results,
                commandsTopic: kafka.topics.commands
            )
            workerAccess.inspectCommandLine = LivePageMailbox.InspectCommandLine(
                program: try ProgramPaths().causeway,
                configurationFile: config,
                standardErrorFile: ""
            )
        } else if let bootstrapServers {
            let topics = WorkerConfiguration.Kafka.Topics()
            workerAccess.resultsSource = SimulatorPage.ResultsSource(
                properties: [("bootstrap.servers", bootstrapServers)],
                topic: topics.results,
                commandsTopic: topics.commands
            )
        }
        workerAccess.workerLocator = workerPid.map { WorkerLocator($0) }
        return workerAccess
    }

    private func readConfiguration(at path: String) throws -> WorkerConfiguration {
        let loader = ConfigurationLoader(
            environment: ProcessInfo.processInfo.environment,
            requiresFiles: false
        )
        do throws(ConfigurationFaults) {
            return try loader.load(path: path)
        } catch {
            throw LabError("--config: \(error.faults.map(\.description).joined(separator: "\n"))")
        }
    }

    func servePage(
        of simulator: Simulator,
        _ workerAccess: SimulatorPage.WorkerAccess,
        directory: String
    ) async throws -> SimulatorPage? {
        guard page, let address = pageAddress else { return nil }
        var workerAccess = workerAccess
        workerAccess.inspectCommandLine?.standardErrorFile = "\(directory)/inspect.log"
        let (controlPort, completeAccess) = (simulator.controlPort, workerAccess)
        return try await BlockingWork.run {
            try SimulatorPage(ofSimulatorAt: controlPort, listeningAt: address, completeAccess)
        }
    }
}
