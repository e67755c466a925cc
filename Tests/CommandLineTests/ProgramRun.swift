import Foundation
import Testbed
import Testing

/// One run of a built program, as a user would start it.
struct ProgramRun {
    var output: String
    var errors: String
    /// 0 for success, 1 for a failure, 64 for a wrong command line, 78 for a wrong configuration.
    var exitCode: Int32
    /// The signal that ended the program; nil if it exited.
    var signal: Int32?

    var outputLines: [String] { output.split(separator: "\n").map(String.init) }
    var errorLines: [String] { errors.split(separator: "\n").map(String.init) }

    /// The programs. Their files are in the folder of the test bundle, from the same build.
    enum Program: String {
        case causeway
        case lab = "causeway-lab"

        var executable: URL {
            let bundle = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            return bundle.deletingLastPathComponent().appendingPathComponent(rawValue)
        }
    }

    /// Returns a process that the kernel kills when the thread that starts it ends. Otherwise, after a crash of the
    /// tests, the program would keep their output open, and the crash would not be reported.
    static func process(
        _ arguments: [String],
        of program: Program = .causeway,
        environment: [String: String] = [:]
    ) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
        process.arguments = ["--pdeathsig", "KILL", "--", program.executable.path] + arguments
        // Environment variables of the tester must not count as configuration keys.
        let inherited = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CAUSEWAY_") }
        process.environment = inherited.merging(environment) { $1 }
        return process
    }

    /// Runs the program to its end.
    static func run(
        _ arguments: String...,
        of program: Program = .causeway,
        input: String = "",
        environment: [String: String] = [:]
    ) throws -> ProgramRun {
        try run(process(arguments, of: program, environment: environment), input: input)
    }

    static func run(_ process: Process, input: String = "") throws -> ProgramRun {
        let directory = try TemporaryDirectory()
        let files = ["out", "err"].map { directory.url.appendingPathComponent($0) }
        for file in files { try Data().write(to: file) }
        let handles = try files.map { try FileHandle(forWritingTo: $0) }
        process.standardOutput = handles[0]
        process.standardError = handles[1]
        process.standardInput = try FileHandle(forReadingFrom: directory.write(input, to: "in"))
        try process.start()
        process.waitUntilExit()
        for handle in handles { try handle.close() }
        let run = ProgramRun(
            output: try String(contentsOf: files[0], encoding: .utf8),
            errors: try String(contentsOf: files[1], encoding: .utf8),
            exitCode: process.terminationStatus,
            signal: process.terminationReason == .uncaughtSignal ? process.terminationStatus : nil
        )
        #expect(SecretPatterns.findings(in: run.output + run.errors) == [], "\(process.arguments ?? [])")
        return run
    }
}
