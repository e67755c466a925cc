import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// A run of `causeway-lab demo` as a process.
struct DemoRun {
    var exitCode: Int32
    /// All of its output.
    var output: String
    /// The figures that the demo printed; nil if it printed none.
    var figures: DemoFigures?

    static func run(
        _ arguments: [String] = [],
        data: String = ExampleFiles("season").directory.path
    ) async throws -> DemoRun {
        try await onOwnThread {
            let directory = try WorkDirectory()
            defer { directory.remove(keeping: false) }
            let json = "\(directory.path)/figures.json"
            let output = try runProgram(ExampleRun.programs.lab, ["demo", "--json", json, "--data", data] + arguments)
            let figures = (try? TextFile.read(json))
                .flatMap { try? JSONDecoder().decode(DemoFigures.self, from: Data($0)) }
            #expect(SecretSearch().findings(in: output.text) == [])
            #expect(!output.text.contains(/[0-9A-Fa-f]{48,}/), "the output contains what looks like a device token")
            return DemoRun(exitCode: output.exitCode, output: output.text, figures: figures)
        }
    }
}

/// Runs a program to its end, and returns its exit code and its two outputs as one text.
///
/// A program that runs for 580 s, almost a test's limit of ten minutes, is ended with SIGTERM. Its exit code is then
/// 124, or 137 if it had to be killed 10 s later.
func runProgram(
    _ program: String,
    _ arguments: [String],
    directory: String? = nil
) throws -> (exitCode: Int32, text: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/timeout")
    process.arguments = ["--kill-after=10", "580", program] + arguments
    if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    try process.start()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, text)
}
