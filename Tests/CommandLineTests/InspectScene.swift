import Foundation
import Kafka
import Testbed
import Testing

/// The data for `causeway inspect`: an activity that was started and updated on a phone, and one that waits for its
/// token. The worker has ended, so only the tests change the data.
final class InspectScene: @unchecked Sendable {  // Nothing changes after `init`, and its suite is serialized.
    /// The scene of the running suite. ``InspectSceneTrait`` creates it once for all tests of the suite.
    @TaskLocal static var current: InspectScene?

    static let app = "com.example.ride"
    static let startedActivity = "phone-7-RideAttributes-0"
    static let heldActivity = "order-9"

    let directory: TemporaryDirectory
    let broker: EmbeddedBroker
    let redis: RedisCommandLine
    /// The phone's tokens. `causeway inspect` must not print them.
    private(set) var tokens: [String] = []
    private let server: RunningProgram

    init() throws {
        directory = try TemporaryDirectory()
        broker = try EmbeddedBroker()
        for topic in ["commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: topic == "results" ? 3 : 1)
        }
        let (server, port) = try RunningProgram.startRedis(directory: directory)
        self.server = server
        redis = RedisCommandLine(port: port)
        let simulator = try RunningProgram(
            ProgramRun.process(
                ["simulator", "--directory", directory.path("apns")]
                    + ["--shapes", Repository.path("Config/examples/ride/shapes.json")]
                    + ["--bootstrap-servers", broker.bootstrapServers],
                of: .lab
            )
        )
        let readiness = try simulator.readReadiness()
        let control = "http://127.0.0.1:\(try #require(readiness["controlPort"] as? Int))"
        try writeConfiguration(apnsPort: try #require(readiness["apnsPort"] as? Int))
        let process = ProgramRun.process(["worker", "--config", directory.path("causeway.yaml")])
        process.standardError = try FileHandle(forWritingTo: directory.write("", to: "worker.log"))
        let worker = try RunningProgram(process)
        _ = try curl("--data", #"{"app":"\#(Self.app)","devices":["phone-7"]}"#, "\(control)/phones")
        let registrations = try TopicReader(broker, topic: "causeway.registrations")
        let results = try TopicReader(broker, topic: "causeway.results")
        // A command that comes before its token has two results: `held`, and later another one. The tests count
        // results. So each token must be in Redis before its command is sent.
        var values = try registrations.read(1).map(\.value)
        try awaitRedis("a push-to-start token") { try inspect("--device", "phone-7").exitCode == 0 }
        try send(Self.start)
        try Self.awaitOutcome("accepted", in: results)
        values += try registrations.read(1).map(\.value)
        try awaitRedis("an update token") { try inspect(Self.startedActivity).output.contains("sha256") }
        tokens = try values.map { String(try #require($0.firstMatch(of: /"token":"([0-9a-f]+)"/)).1) }
        try send(Self.update(Self.startedActivity, number: 1, status: "driverEnRoute", priority: 10))
        try Self.awaitOutcome("accepted", in: results)
        try send(Self.update(Self.heldActivity, number: 2, status: "driverArrived", priority: nil))
        try Self.awaitOutcome("held", in: results)
        #expect(worker.terminate() == 0)
    }

    private func writeConfiguration(apnsPort: Int) throws {
        try directory.write(
            """
            log: {format: text}
            kafka:
              bootstrapServers: "\(broker.bootstrapServers)"
              consumer: {fetch.wait.max.ms: 10}
            redis: {url: "redis://127.0.0.1:\(redis.port)"}
            apns:
              sandbox: {host: localhost, port: \(apnsPort)}
              caFile: \(directory.path("apns/ca.pem"))
            apps:
              ride:
                bundleId: \(Self.app)
                teamId: SIMULATION
                keyId: SIMULATION
                keyFile: \(directory.path("apns/AuthKey_SIMULATION.p8"))
                environments: [sandbox]
                policy: rides
            policies:
              rides:
                budget: {pushes: 12, refillPerHour: 1, reservedForAlerts: 4}
                startBudget: {pushes: 6, refillPerHour: 1}
            worker: {lanes: 1}

            """,
            to: "causeway.yaml"
        )
    }

    /// Reads up to ten results until one has this outcome. The others may be from commands that the worker settled late
    /// or twice.
    private static func awaitOutcome(_ outcome: String, in results: TopicReader) throws {
        for _ in 0..<10 {
            let value = try results.read(1)[0].value
            if value.contains("\"outcome\":\"\(outcome)\"") { return }
        }
        Issue.record("no result is \(outcome)")
    }

    private func awaitRedis(_ what: String, until isStored: () throws -> Bool) throws {
        try eventually("\(what) in Redis", every: .milliseconds(50), until: isStored)
    }

    private func send(_ record: String) throws {
        let sent = try ProgramRun.run("send", "-b", broker.bootstrapServers, "--now", input: record)
        #expect(sent.output.hasPrefix("1 sent, 1 acknowledged"))
    }

    /// Runs `causeway inspect` with the scene's configuration.
    func inspect(_ arguments: String..., environment: [String: String] = [:]) throws -> ProgramRun {
        try inspect(arguments, environment: environment)
    }

    func inspect(_ arguments: [String], environment: [String: String]) throws -> ProgramRun {
        try ProgramRun.run(
            ProgramRun.process(
                ["inspect", "--config", directory.path("causeway.yaml")] + arguments,
                environment: environment
            )
        )
    }

    private static let content = """
        "driverName": "Tomasz", "driverPhoto": "person.crop.circle", "vehicleDescription": "White Prius", \
        "eta": [811693400, 811693520], "distanceRemaining": 3.1
        """

    private static let start = """
        {"app": "\(app)", "activity": "\(startedActivity)", "device": "phone-7",
         "aps": {"timestamp": 1790000000, "event": "start", "attributes-type": "RideAttributes",
          "attributes": {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"},
          "content-state": {\(content), "status": "driverAssigned"},
          "alert": {"title": "Your driver is assigned", "body": "Tomasz comes"}, "input-push-token": 1}}
        """

    private static func update(_ activity: String, number: Int, status: String, priority: Int?) -> String {
        let urgency = priority.map { "\"priority\": \($0), " } ?? ""
        return """
            {"id": "update-\(number)", "app": "\(app)", "activity": "\(activity)", \(urgency)
             "aps": {"timestamp": 1790000000, "event": "update", "content-state": {\(content), "status": "\(status)"},
              "alert": {"title": "Tomasz is on his way", "body": "White Prius"}}}
            """
    }
}

/// One scene for all tests of a suite, deleted after the last of them.
struct InspectSceneTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        // Waiting for the scene's programs must not block a thread that other tests need.
        try await onOwnThread {
            try await InspectScene.$current.withValue(InspectScene(), operation: function)
        }
    }
}
