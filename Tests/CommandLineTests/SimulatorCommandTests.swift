import Foundation
import Testbed
import Testing

@Suite("causeway-lab simulator", .ownThread)
struct SimulatorCommandTests {
    private let shapes = Repository.path("Config/examples/ride/shapes.json")

    @Test func `It prints its addresses, has its apps, answers clients that trust it over HTTP/2, and ends on SIGTERM`()
        throws
    {
        let directory = try TemporaryDirectory()
        let simulator = try RunningProgram(
            ProgramRun.process(["simulator", "--directory", directory.path("apns"), "--shapes", shapes], of: .lab)
        )
        let place = try simulator.readiness()
        let port = try #require(place["apnsPort"] as? Int)
        let control = "http://127.0.0.1:\(try #require(place["controlPort"] as? Int))"
        #expect(place["caFile"] as? String == directory.path("apns/ca.pem"))
        #expect(place["keyFile"] as? String == directory.path("apns/AuthKey_SIMULATION.p8"))
        let mode = try FileManager.default.attributesOfItem(atPath: directory.path("apns/AuthKey_SIMULATION.p8"))
        #expect(mode[.posixPermissions] as? Int == 0o600)

        let answer = try curl(
            "--http2",
            "--cacert",
            directory.path("apns/ca.pem"),
            "--data",
            "{}",
            "--write-out",
            " %{http_version} %{http_code}",
            "https://localhost:\(port)/3/device/00"
        )
        #expect(answer.contains(#"{"reason":""#))
        #expect(answer.hasSuffix(" 2 400") || answer.hasSuffix(" 2 403"))
        #expect(
            try curl("--data", #"{"app":"com.example.ride","devices":["p"]}"#, "\(control)/phones")
                .contains(#""installed":1"#)
        )
        #expect(simulator.terminate() == 0)
    }

    @Test func `Its own directory is deleted when it ends`() throws {
        let simulator = try RunningProgram(
            ProgramRun.process(["simulator", "--latency", "1-2", "--seed", "7"], of: .lab)
        )
        let file = try #require(try simulator.readiness()["caFile"] as? String)
        #expect(FileManager.default.fileExists(atPath: file))
        #expect(simulator.terminate() == 0)
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test(arguments: [
        (["--shapes", "/nowhere.json"], "/nowhere.json: cannot be opened"),
        (["--shapes", "bad.json"], "bad.json:2: must be an object with app and attributesTypes"),
        (["--shapes", "field.json"], "field.json:1: "),
        (["--key", "A:B:/nowhere.p8"], "--key /nowhere.p8: cannot be read"),
        (["--latency", "5-1"], "--latency must be"),
        (["--environment", "staging"], "--environment must be production or sandbox"),
    ])
    func `What it cannot use`(arguments: [String], message: String) throws {
        let directory = try TemporaryDirectory()
        try directory.write("\n{\"app\":1}", to: "bad.json")
        try directory.write(
            #"{"app":"a","attributesTypes":[{"name":"T","attributes":{"x":"number"},"contentState":{}}]}"#,
            to: "field.json"
        )
        let process = ProgramRun.process(["simulator"] + arguments, of: .lab)
        process.currentDirectoryURL = directory.url
        let errors = Pipe()
        process.standardError = errors
        let simulator = try RunningProgram(process)
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        #expect(try #require(simulator.exitCode()) != 0)
        #expect(text.contains(message), "\(text)")
    }
}
