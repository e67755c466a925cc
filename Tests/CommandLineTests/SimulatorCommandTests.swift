import Foundation
import Reactor
import Testbed
import Testing

@Suite("causeway-lab simulator", .ownThread)
struct SimulatorCommandTests {
    private let shapes = Repository.path("Config/examples/ride/shapes.json")

    @Test func `The simulator prints its addresses, serves its apps over HTTP/2, and ends on SIGTERM`() throws {
        let directory = try TemporaryDirectory()
        let simulator = try RunningProgram(
            ProgramRun.process(["simulator", "--directory", directory.path("apns"), "--shapes", shapes], of: .lab)
        )
        let readiness = try simulator.readReadiness()
        let port = try #require(readiness["apnsPort"] as? Int)
        let control = "http://127.0.0.1:\(try #require(readiness["controlPort"] as? Int))"
        #expect(readiness["caFile"] as? String == directory.path("apns/ca.pem"))
        #expect(readiness["keyFile"] as? String == directory.path("apns/AuthKey_SIMULATION.p8"))
        let mode = try FileManager.default.attributesOfItem(atPath: directory.path("apns/AuthKey_SIMULATION.p8"))
        #expect(mode[.posixPermissions] as? Int == 0o600)

        let response = try curl(
            "--http2",
            "--cacert",
            directory.path("apns/ca.pem"),
            "--data",
            "{}",
            "--write-out",
            " %{http_version} %{http_code}",
            "https://localhost:\(port)/3/device/00"
        )
        #expect(response.contains(#"{"reason":""#))
        #expect(response.hasSuffix(" 2 400") || response.hasSuffix(" 2 403"))
        #expect(
            try curl("--data", #"{"app":"com.example.ride","devices":["p"]}"#, "\(control)/phones")
                .contains(#""installed":1"#)
        )
        #expect(simulator.terminate() == 0)
    }

    @Test func `The simulator deletes its own directory when it ends`() throws {
        let simulator = try RunningProgram(
            ProgramRun.process(["simulator", "--latency", "1-2", "--seed", "7"], of: .lab)
        )
        let file = try #require(try simulator.readReadiness()["caFile"] as? String)
        #expect(FileManager.default.fileExists(atPath: file))
        #expect(simulator.terminate() == 0)
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test(
        arguments: [
            (["--shapes", "/nowhere.json"], 1, "/nowhere.json: cannot be opened: No such file or directory"),
            (["--shapes", "bad.json"], 1, "bad.json:2: must be an object with app and attributesTypes"),
            (["--shapes", "field.json"], 1, "field.json:1: "),
            (["--key", "A:B:/nowhere.p8"], 1, "--key /nowhere.p8: cannot be read"),
            (["--latency", "5-1"], 64, "--latency must be"),
            (["--environment", "staging"], 64, "--environment must be production or sandbox"),
            (["--page", "--page-host", "example.com"], 64, "--page-host must be a numeric address"),
        ],
        [[], ["--bootstrap-servers", "127.0.0.1:1"]]
    )
    func `The simulator names an unusable argument in one line, with Kafka or without`(
        _ refusal: (arguments: [String], code: Int32, message: String),
        kafka: [String]
    ) throws {
        let directory = try TemporaryDirectory()
        try directory.write("\n{\"app\":1}", to: "bad.json")
        try directory.write(
            #"{"app":"a","attributesTypes":[{"name":"T","attributes":{"x":"number"},"contentState":{}}]}"#,
            to: "field.json"
        )
        let process = ProgramRun.process(["simulator"] + refusal.arguments + kafka, of: .lab)
        process.currentDirectoryURL = directory.url
        let run = try ProgramRun.run(process)
        #expect(run.exitCode == refusal.code && run.signal == nil)
        #expect(run.output.isEmpty)
        #expect(run.errors.contains(refusal.message), "\(run.errors)")
        #expect(refusal.code == 64 || run.errorLines.count == 1, "\(run.errors)")
    }

    @Test(
        arguments: ["--port", "--control-port", "--management-port"],
        [[], ["--bootstrap-servers", "127.0.0.1:1"]]
    )
    func `A simulator whose port is taken names it, and ends at once`(option: String, kafka: [String]) throws {
        let socket = try ListeningSocket(address: .loopback(port: 0), backlog: 1)
        let port = socket.address.port
        let start = ContinuousClock.now
        let run = try ProgramRun.run(
            ProgramRun.process(["simulator", option, "\(port)"] + kafka, of: .lab)
        )
        #expect(run.exitCode == 1 && run.signal == nil)
        #expect(run.output.isEmpty)
        #expect(
            run.errorLines == [
                "causeway-lab simulator: cannot listen on 127.0.0.1:\(port): Address already in use"
            ]
        )
        // If the simulator waited for clients of its control interface before it ends, it would take longer
        // than 30 s.
        #expect(start.duration(to: .now) < .seconds(30))
        withExtendedLifetime(socket) {}
    }
}
