import Foundation
import Kafka
import Testbed
import Testing

/// The first command sent by hand, as in the README: each part but the broker is a separate process.
@Suite("The first command", .ownThread)
struct FirstCommandTests {
    @Test
    func
        `A start sent by hand appears on the phone's Lock Screen, its result in Kafka; the worker drains and ends with 0`()
        throws
    {
        let directory = try TemporaryDirectory()
        let broker = try EmbeddedBroker()
        for topic in ["commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout"] {
            try broker.createTopic("causeway.\(topic)", partitionCount: 1)
        }
        let (redis, redisPort) = try RunningProgram.startRedis(directory: directory)
        let shapes = Repository.path("Config/examples/ride/shapes.json")
        let simulator = try RunningProgram(
            ProgramRun.process(
                ["simulator", "--directory", directory.path("apns"), "--shapes", shapes]
                    + ["--bootstrap-servers", broker.bootstrapServers],
                of: .lab
            )
        )
        let readiness = try simulator.readReadiness()
        let control = "http://127.0.0.1:\(try #require(readiness["controlPort"] as? Int))"
        try directory.write(
            """
            log: {format: text}
            kafka:
              bootstrapServers: "\(broker.bootstrapServers)"
              consumer: {fetch.wait.max.ms: 10}
            redis: {url: "redis://127.0.0.1:\(redisPort)"}
            apns:
              sandbox: {host: localhost, port: \(try #require(readiness["apnsPort"] as? Int))}
              caFile: \(directory.path("apns/ca.pem"))
            apps:
              ride:
                bundleId: com.example.ride
                teamId: SIMULATION
                keyId: SIMULATION
                keyFile: \(directory.path("apns/AuthKey_SIMULATION.p8"))
                environments: [sandbox]
            worker: {lanes: 1}
            http: {port: 0}

            """,
            to: "causeway.yaml"
        )
        let check = try ProgramRun.run("check", "--files", "--config", directory.path("causeway.yaml"))
        #expect(check.output == "")
        let process = ProgramRun.process(["worker", "--config", directory.path("causeway.yaml")])
        let log = try FileHandle(forWritingTo: directory.write("", to: "worker.log"))
        process.standardError = log
        let worker = try RunningProgram(process)

        _ = try curl("--data", #"{"app":"com.example.ride","devices":["phone-7"]}"#, "\(control)/phones")
        let registrations = try TopicReader(broker, topic: "causeway.registrations")
        #expect(try registrations.read(1).map(\.key) == ["phone-7/RideAttributes"])
        let sent = try ProgramRun.run("send", "-b", broker.bootstrapServers, "--now", input: Self.command)
        #expect(sent.output.hasPrefix("1 sent, 1 acknowledged, 0 failed"))

        // The worker may read the command before the registration. The command is then held, and has a second
        // result.
        let results = try TopicReader(broker, topic: "causeway.results")
        var result = try results.read(1)[0]
        if result.value.contains(#""outcome":"held""#) { result = try results.read(1)[0] }
        #expect(result.value.contains(#""outcome":"accepted""#), "\(result.value)")
        let phone = try curl("\(control)/phone?app=com.example.ride&device=phone-7")
        #expect(phone.contains(#""startedBy":"push""#))
        #expect(phone.contains("driverAssigned"))

        #expect(worker.terminate() == 0)
        let lines = try String(contentsOfFile: directory.path("worker.log"), encoding: .utf8)
        let token = try #require(phone.firstMatch(of: /[0-9a-f]{64,}/)).output
        #expect(!lines.contains(token), "a token is in the log")
        withExtendedLifetime(redis) {}
    }

    private static let command = """
        {
          "app": "com.example.ride",
          "activity": "phone-7-RideAttributes-0",
          "device": "phone-7",
          "aps": {
            "timestamp": 1790000000,
            "event": "start",
            "attributes-type": "RideAttributes",
            "attributes": {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"},
            "content-state": {
              "driverName": "Tomasz", "driverPhoto": "person.crop.circle", "vehicleDescription": "White Prius",
              "eta": [811693400, 811693520], "status": "driverAssigned", "distanceRemaining": 3.1
            },
            "alert": {"title": "Your driver is assigned", "body": "Tomasz comes in a white Prius"},
            "input-push-token": 1
          }
        }
        """
}
