import Testbed
import Testing

@Suite("causeway check, with the shapes of an app", .ownThread)
struct ShapesCheckTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    private static let shapes =
        #"{"app":"com.example.match","attributesTypes":[{"name":"Match","attributes":{},"contentState":{"home":"int"}}]}"#

    /// Writes the configuration of an app that has shapes.
    private func configuration(mode: String = "refuse", file: String? = nil) throws -> String {
        try directory.write(
            """
            kafka: {bootstrapServers: "broker:9092"}
            redis: {url: "redis://cache"}
            apps:
              match:
                bundleId: com.example.match
                teamId: TEAM123456
                keyId: KEY1234567
                keyFile: /nowhere/key.p8
                shapes: {file: "\(file ?? directory.path("shapes.json"))", mode: \(mode)}

            """,
            to: "causeway.yaml"
        )
        return directory.path("causeway.yaml")
    }

    private func command(_ state: String) -> String {
        #"{"app":"com.example.match","activity":"a","aps":{"event":"update","timestamp":1790000000,"content-state":\#(state)}}"#
    }

    @Test(arguments: ["refuse", "warn"])
    func `A command that no phone could decode is a fault, with its path, value and type`(mode: String) throws {
        try directory.write(Self.shapes, to: "shapes.json")
        let run = try ProgramRun.run(
            "check",
            "--config",
            try configuration(mode: mode),
            "--commands",
            "-",
            input: [command(#"{"home":1}"#), command(#"{"home":"1"}"#), command("{}")].joined(separator: "\n")
        )
        #expect(
            run.outputLines == [
                #"stdin:2: aps.content-state.home: "1" must be int (at byte 113)"#,
                "stdin:3: aps.content-state.home: missing, must be int (at byte 105)",
            ]
        )
        #expect(run.exitCode == 1)
    }

    @Test func `A wrong file of shapes is a fault of the configuration, with the file, the place and the value`() throws
    {
        try directory.write(Self.shapes.replacing("\"int\"", with: "\"number\""), to: "shapes.json")
        let run = try ProgramRun.run("check", "--config", try configuration())
        let file = directory.path("shapes.json")
        #expect(run.outputLines.count == 1 && run.exitCode == 1)
        let fault =
            "apps.match.shapes.file: \(file): attributesTypes[0].contentState.home: \"number\" is not a type; "
            + "the types are "
        #expect(run.output.contains(fault), "\(run.output)")
    }

    @Test func `A file of shapes without the app is a fault; a missing file is one only with --files`() throws {
        try directory.write(Self.shapes.replacing("com.example.match", with: "com.example.other"), to: "shapes.json")
        let runWithoutApp = try ProgramRun.run("check", "--config", try configuration())
        #expect(runWithoutApp.output.contains("has no shapes of com.example.match: it has only com.example.other"))
        let configurationWithoutFile = try configuration(file: "/nowhere/shapes.json")
        #expect(try ProgramRun.run("check", "--config", configurationWithoutFile).exitCode == 0)
        let runWithFiles = try ProgramRun.run("check", "--files", "--config", configurationWithoutFile)
        #expect(runWithFiles.output.contains("apps.match.shapes.file: /nowhere/shapes.json: cannot be opened"))
    }
}
