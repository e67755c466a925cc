import Audiences
import Delivery
import Kafka
import Logging
import Reactor
import Testbed

@testable import CausewayConfiguration
@testable import CausewayWorker

/// Makes an `Intake`, the setup of a worker with one lane, and the setup of that lane. The body makes the lane
/// (``WorkerSetup/makeFirstLane(_:)``) if it needs one.
///
/// - Parameters:
///   - bootstrapServers: by default an address at which no broker responds.
///   - workerKeys: the keys of the section `worker` that a test may choose, as in `a: 1, b: 2`.
func withIntake(
    bootstrapServers: String = "127.0.0.1:1",
    workerKeys: String = "drainMilliseconds: 120000",
    _ body: (Intake, WorkerSetup, LaneSetup) throws -> Void
) throws {
    let directory = try TemporaryDirectory()
    let keyFile = try GeneratedCertificate.write(directory: directory.path("key"), hosts: ["localhost"]).keyFile
    let text = """
        kafka: {bootstrapServers: "\(bootstrapServers)"}
        redis: {url: "redis://127.0.0.1:1"}
        worker: {lanes: 1, commandsPerLane: 1024, \(workerKeys)}
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
    // With the windows' default sizes, the ledgers of this many partitions would need 0.5 GiB.
    laneSetup.deliveryConfiguration.ledgerWindowOffsetCount = 64
    laneSetup.audiencesConfiguration.ledgerWindowOffsetCount = 64
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
