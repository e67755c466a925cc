import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("Children of the demo", .ownThread)
struct ChildProcessTests {
    private let directory: TemporaryDirectory
    private var log: String { directory.path("child.log") }

    init() throws { directory = try TemporaryDirectory() }

    private func startChild(
        _ script: String,
        output: ChildProcess.StandardOutput = .log,
        variables: [String] = ChildProcess.parentEnvironmentVariables
    ) throws -> ChildProcess {
        let command = ["/bin/sh", "-c", script]
        return try ChildProcess(name: "child", command: command, logFile: log, output: output, variables: variables)
    }

    @Test func `The first line and the exit code of a child process are read`() throws {
        let child = try startChild("echo ready; echo more; exit 3", output: .pipe)
        #expect(try child.readFirstLine(timeoutMilliseconds: 60_000) == "ready")
        #expect(child.wait(timeoutMilliseconds: 60_000) == .exited(3))
    }

    @Test func `The error about a child process that dies shows the end of its log`() throws {
        let child = try startChild("echo 'no port left' >&2; exit 1", output: .pipe)
        let error = #expect(throws: LabError.self) { try child.readFirstLine(timeoutMilliseconds: 60_000) }
        #expect(error?.description == "the child exited with code 1; its log ends with\n  | no port left")
    }

    @Test func `A child process that prints nothing is reported in time`() throws {
        let child = try startChild("exec sleep 60", output: .pipe)
        let error = #expect(throws: LabError.self) { try child.readFirstLine(timeoutMilliseconds: 20) }
        #expect(error?.reason.contains("printed nothing in time") == true)
        child.stop(graceMilliseconds: 60_000)
        #expect(child.poll() == .killed(signal: SIGTERM))
    }

    @Test func `A child process that ignores SIGTERM is killed`() throws {
        let child = try startChild("trap '' TERM; echo deaf; while :; do sleep 1; done", output: .pipe)
        #expect(try child.readFirstLine(timeoutMilliseconds: 60_000) == "deaf")
        child.stop(graceMilliseconds: 20)
        #expect(child.poll() == .killed(signal: SIGKILL))
    }

    @Test func `A worker's configuration is not inherited`() throws {
        // The variable is set for the child only. If this process set it, the programs of other tests would
        // inherit it.
        let child = try startChild(
            "echo \"[$CAUSEWAY_DEMO_TEST,$OTHER]\"",
            output: .pipe,
            variables: ["CAUSEWAY_DEMO_TEST=leaked", "OTHER=kept"]
        )
        #expect(try child.readFirstLine(timeoutMilliseconds: 60_000) == "[,kept]")
        _ = child.wait(timeoutMilliseconds: 60_000)
    }

    @Test func `A child process inherits only its three descriptors`() throws {
        // Foundation's pipe has no close-on-exec flag, so the child could inherit it.
        let pipe = Pipe()
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        let child = try startChild("[ -e /proc/$$/fd/\(descriptor) ] && echo held || echo free", output: .pipe)
        #expect(try child.readFirstLine(timeoutMilliseconds: 60_000) == "free")
        #expect(child.wait(timeoutMilliseconds: 60_000) == .exited(0))
        withExtendedLifetime(pipe) {}
    }

    @Test func `A program that does not exist exits with code 127`() throws {
        let child = try ChildProcess(name: "ghost", command: ["/nowhere/ghost"], logFile: log)
        #expect(child.wait(timeoutMilliseconds: 60_000) == .exited(127))
    }

    @Test func `The usage of a process is read`() throws {
        let usage = try #require(ProcessUsage(processIdentifier: getpid()))
        #expect(usage.residentPeakBytes > 1 << 20)
        #expect(ProcessUsage(stat: "no parenthesis", status: "", ticksPerSecond: 100) == nil)
        #expect(ProcessUsage(stat: "1 (x) S 1", status: "", ticksPerSecond: 100) == nil)
    }
}

@Suite("The HTTP client for loopback", .ownThread)
struct LoopbackHTTPClientTests {
    @Test(arguments: ["the simulator", "the worker"])
    func `The error names the server and its address if nobody responds`(_ server: String) {
        // Nothing listens at port 1. A port that was free a moment ago would not do, because another test may
        // have taken it.
        let client = LoopbackHTTPClient(port: 1, serverName: server)
        let error = #expect(throws: LabError.self) { try client.request("GET", "/") }
        #expect(error?.reason.hasPrefix("GET / to \(server): ") == true)
        #expect(error?.reason.contains("127.0.0.1:1: ") == true)
    }
}
