import Audiences
import Delivery
import Kafka
import Logging
import Reactor
import Testbed

@testable import CausewayConfiguration
@testable import CausewayWorker
@testable import Observability

/// Makes an `Intake`, the setup of a worker with one lane, and the setup of that lane. The body makes the lane
/// (``WorkerSetup/makeFirstLane(_:)``) if it needs one.
///
/// - Parameters:
///   - bootstrapServers: by default an address at which no broker responds.
///   - workerKeys: values for keys of the section `worker`. Without one for `drainMilliseconds`, a drain lasts so long
///     that no test reaches its end.
func withIntake(
    bootstrapServers: String = "127.0.0.1:1",
    workerKeys: [String: Int] = [:],
    _ body: (Intake, WorkerSetup, LaneSetup) throws -> Void
) throws {
    let directory = try TemporaryDirectory()
    let keyFile = try GeneratedCertificate.write(directory: directory.path("key"), hosts: ["localhost"]).keyFile
    let keys = ["lanes": 1, "commandsPerLane": 1_024, "drainMilliseconds": 120_000]
        .merging(workerKeys) { _, chosenValue in chosenValue }
    let text = """
        kafka: {bootstrapServers: "\(bootstrapServers)"}
        redis: {url: "redis://127.0.0.1:1"}
        worker: {\(keys.map { "\($0.key): \($0.value)" }.joined(separator: ", "))}
        apps:
          match: {bundleId: com.example.match, teamId: TEAM123456, keyId: KEY1234567, keyFile: "\(keyFile)"}

        """
    let configuration = try ConfigurationLoader(environment: [:], requiresFiles: false).load(text: text, file: nil)
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let setup = try withExtendedLifetime(directory) {
        try WorkerSetup(configuration: configuration, logger: logger, version: "0")
    }
    let producer = try setup.makeProducer()
    defer { _ = producer.close(timeoutMilliseconds: 1_000) }
    var laneSetup = try setup.makeLaneSetup(producer)
    // With the spans' default sizes, the ledgers of this many partitions would need 0.5 GiB.
    laneSetup.deliveryConfiguration.ledgerSpanOffsetCount = 64
    laneSetup.audiencesConfiguration.ledgerSpanOffsetCount = 64
    let signals = IntakeSignals()
    let intake = try Intake(loop: EventLoop(), setup: setup.makeIntakeSetup(producer), signals: signals)
    defer {
        // Without this request, each step of closing would wait until its deadline, because no broker responds.
        signals.requestStopAtOnce()
        intake.close()
    }
    try body(intake, setup, laneSetup)
}

extension WorkerSetup {
    /// Makes the worker's first lane, which is not started. The caller closes it.
    func makeFirstLane(_ laneSetup: LaneSetup) throws -> Lane {
        try Lane(
            number: 0,
            loop: EventLoop(),
            mailbox: mailboxes[0],
            kafkaWakeup: kafkaWakeup,
            setup: laneSetup
        )
    }
}

extension Lane {
    /// Publishes the lane's metrics, as a running lane does four times a second, and returns those of the worker.
    func publishedTotals() -> MetricTotals {
        publishMetrics()
        return setup.metricRegistry.totals(nowMilliseconds: loop.nowMilliseconds)
    }
}
