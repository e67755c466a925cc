import Foundation
import Glibc
import Kafka
import Testbed
import Testing

@Suite("causeway results", .ownThread)
struct ResultsTests {
    private let broker: EmbeddedBroker

    init() throws {
        broker = try EmbeddedBroker()
        for topic in ["causeway.results", "mine"] { try broker.createTopic(topic, partitionCount: 3) }
    }

    private func send(_ lines: [String], to topic: String) throws {
        let run = try ProgramRun.run(
            "send",
            "--bootstrap-servers",
            broker.bootstrapServers,
            "--topic",
            topic,
            input: lines.joined(separator: "\n")
        )
        #expect(run.exitCode == 0, "\(run.errors)")
    }

    private func result(_ activity: String, _ number: Int) -> String {
        "{\"command\":\"\(number)\",\"activity\":\"\(activity)\",\"outcome\":\"accepted\"}"
    }

    @Test func `All results are printed, those of an activity in order, and the program ends`() throws {
        let lines = (0..<300).map { result("a\($0 % 7)", $0) }
        try send(lines, to: "causeway.results")
        let run = try ProgramRun.run("results", "--bootstrap-servers", broker.bootstrapServers)
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(run.outputLines.sorted() == lines.sorted())
        for activity in 0..<7 {
            let mark = "\"a\(activity)\""
            #expect(run.outputLines.filter { $0.contains(mark) } == lines.filter { $0.contains(mark) })
        }
    }

    @Test func `For an empty topic, nothing is printed`() throws {
        let run = try ProgramRun.run("results", "--bootstrap-servers", broker.bootstrapServers, "--topic", "mine")
        #expect(run.exitCode == 0 && run.output.isEmpty && run.errors.isEmpty)
    }

    @Test(arguments: [[], ["--follow"]])
    func `A topic that does not exist is named with the address`(_ options: [String]) throws {
        let servers = broker.bootstrapServers
        // Without this error (3: unknown topic), the embedded broker would create the topic when the client asks for
        // it.
        broker.setMetadataError(topic: "missing", code: 3)
        let run = try ProgramRun.run(ProgramRun.process(["results", "-b", servers, "-t", "missing"] + options))
        let expected = """
            causeway results: the topic missing does not exist at \(servers), or this Kafka user may not read it; \
            `causeway topics --create` creates the topics of a deployment
            """
        #expect(run.exitCode == 1 && run.output.isEmpty && run.errorLines == [expected], "\(run.errors)")
    }

    @Test func `The option --follow continues with new results`() throws {
        let output = Pipe()
        let process = ProgramRun.process(["results", "-b", broker.bootstrapServers, "-t", "mine", "--follow"])
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        try process.start()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        for number in 0..<3 {
            try send([result("a", number)], to: "mine")
            let wanted = Data((result("a", number) + "\n").utf8)
            #expect(try Self.read(wanted.count, from: output) == wanted)
        }
        #expect(process.isRunning)
    }

    /// Reads this many bytes of a program's output, and waits until they are written.
    private static func read(_ count: Int, from pipe: Pipe) throws -> Data {
        let descriptor = pipe.fileHandleForReading.fileDescriptor
        var data = Data()
        while data.count < count {
            var pollDescriptor = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            try #require(poll(&pollDescriptor, 1, 120_000) > 0, "only \(data.count) of \(count) bytes came")
            var bytes = [UInt8](repeating: 0, count: count - data.count)
            let readCount = Glibc.read(descriptor, &bytes, bytes.count)
            try #require(readCount > 0, "the program ended")
            data += bytes.prefix(readCount)
        }
        return data
    }

    @Test(arguments: [[], ["--follow"]])
    func `If standard output cannot be written, the program ends with an error`(_ options: [String]) throws {
        try send([result("a", 1)], to: "causeway.results")
        let process = ProgramRun.process(["results", "-b", broker.bootstrapServers] + options)
        let errors = Pipe()
        // Each write to this device fails as on a full disk.
        process.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: "/dev/full"))
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.start()
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        #expect(text == "causeway: standard output cannot be written: No space left on device\n")
    }

    @Test func `The command requires Kafka's address`() throws {
        let run = try ProgramRun.run("results")
        #expect(run.exitCode == 64 && run.errors.contains("--bootstrap-servers or --config"))
    }
}
