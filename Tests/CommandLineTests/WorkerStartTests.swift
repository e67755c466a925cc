import Foundation
import Reactor
import Testbed
import Testing

@testable import CausewayLab

@Suite("causeway worker: its start", .ownThread)
struct WorkerStartTests {
    @Test func `A worker with a wrong configuration prints each fault in a line, and exits with 78`() throws {
        let directory = try TemporaryDirectory()
        try directory.write(
            """
            kafka: {bootstrapServers: "127.0.0.1:1"}
            redis: {url: "redis://127.0.0.1:1"}
            apps: {match: {bundleId: m, teamId: TEAM123456, keyId: KEY1234567, keyFile: /nowhere.p8}}
            worker:
              lanes: 1000

            """,
            to: "c.yaml"
        )
        let path = directory.path("c.yaml")
        let run = try ProgramRun.run("worker", "--config", path, environment: ["CAUSEWAY_LOG_FORMAT": "xml"])
        #expect(run.exitCode == 78)
        #expect(run.output.isEmpty)
        #expect(
            run.errorLines == [
                "\(path):3:77: apps.match.keyFile: /nowhere.p8: cannot be opened: No such file or directory",
                "\(path):5:10: worker.lanes: 1000 is not in 0...256",
                "CAUSEWAY_LOG_FORMAT: log.format: is not one of json, text",
            ]
        )
    }

    @Test func `A worker without a configuration names the missing keys, and exits with 78`() throws {
        let run = try ProgramRun.run("worker")
        #expect(run.exitCode == 78)
        #expect(
            run.errorLines == [
                "environment: apps: must have 1 to 255 apps (or CAUSEWAY_APPS in the environment)",
                "environment: kafka.bootstrapServers: is required (or CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS in the environment)",
                "environment: redis.url: is required (or CAUSEWAY_REDIS_URL in the environment)",
            ]
        )
    }

    /// Writes a configuration with a valid key, and returns its path.
    private func writeConfiguration(_ directory: TemporaryDirectory, http: String = "{port: 0}", more: String = "")
        throws -> String
    {
        let key = try SimulatorDirectory(path: directory.path("apns")).ensureOwnKey().file
        try directory.write(
            """
            log: {format: text}
            http: \(http)
            kafka: {bootstrapServers: "127.0.0.1:1"}
            redis: {url: "redis://127.0.0.1:1"}
            apps: {match: {bundleId: m, teamId: TEAM123456, keyId: KEY1234567, keyFile: \(key)}}
            worker: {lanes: 1}
            \(more)

            """,
            to: "c.yaml"
        )
        return directory.path("c.yaml")
    }

    @Test func `A worker whose port is taken names the key and the address, and exits with 78`() throws {
        let directory = try TemporaryDirectory()
        let socket = try ListeningSocket(address: .loopback(port: 0), backlog: 1)
        let port = socket.address.port
        let run = try ProgramRun.run(
            "worker",
            "-c",
            try writeConfiguration(directory, http: "{host: 127.0.0.1, port: \(port)}")
        )
        #expect(run.exitCode == 78)
        #expect(run.errorLines.count == 1)
        #expect(
            run.errors.contains("http.port: cannot listen on 127.0.0.1:\(port): Address already in use"),
            "\(run.errors)"
        )
        #expect(!run.errors.contains("worker started"))
        withExtendedLifetime(socket) {}
    }

    /// A reader of the log may stop reading at any time. The threads and the stop of a worker must not wait for it.
    @Test func `A worker whose log nobody reads responds on its pages, and stops`() throws {
        let directory = try TemporaryDirectory()
        let port = try Listener.findUnusedLoopbackPort()
        let process = ProgramRun.process(
            ["worker", "-c", try writeConfiguration(directory, http: "{host: 127.0.0.1, port: \(port)}")],
            environment: ["CAUSEWAY_WORKER_DRAIN_MILLISECONDS": "4000"]
        )
        let log = Pipe()
        log.fill()
        process.standardError = log
        let worker = try RunningProgram(process)
        try eventually("iterations of all threads") {
            let page = try curl("http://127.0.0.1:\(port)/livez")
            return page.hasSuffix("\nok\n") && !page.contains("no iteration")
        }
        #expect(worker.terminate() == 0)
        withExtendedLifetime((directory, log)) {}
    }

    @Test func `A worker names each unusable file and property, as a check does, and exits with 78`() throws {
        let directory = try TemporaryDirectory()
        try directory.write("hello", to: "hello.p8")
        try directory.write("hello", to: "hello.pem")
        let path = try writeConfiguration(directory, more: "apns: {caFile: \(directory.path("hello.pem"))}")
        let text = try String(contentsOfFile: path, encoding: .utf8)
            .replacing(directory.path("apns/AuthKey_SIMULATION.p8"), with: directory.path("hello.p8"))
            .replacing(
                #"bootstrapServers: "127.0.0.1:1"}"#,
                with: #"bootstrapServers: "127.0.0.1:1", properties: {no.such: 1}, consumer: {nor.this: 2}, "#
                    + "producer: {security.protocol: ssl, ssl.ca.location: /nowhere.pem}}"
            )
            .replacing("worker: {lanes: 1}", with: "worker: {lanes: 8, memoryMebibytes: 64}")
        try directory.write(text, to: "c.yaml")
        let worker = try ProgramRun.run("worker", "-c", path)
        #expect(worker.exitCode == 78)
        let faults = worker.errorLines.map { $0.replacing(directory.url.path + "/", with: "") }
        #expect(
            faults == [
                "c.yaml:3:55: kafka.properties.no.such: librdkafka does not know this property",
                "c.yaml:3:79: kafka.consumer.nor.this: librdkafka does not know this property",
                "c.yaml:3:128: kafka.producer.ssl.ca.location: /nowhere.pem: cannot be opened: No such file or directory",
                "c.yaml:5:77: apps.match.keyFile: hello.p8: not an unencrypted private key in PEM",
                "c.yaml:6:37: worker.memoryMebibytes: 64 MiB (if not set: 85 % of the control group's limit) is too "
                    + "little for 8 lanes and 32 connections. Set fewer lanes (worker.lanes), or give more memory",
                "c.yaml:7:16: apns.caFile: hello.pem: no certificate or crl found",
            ]
        )
        let check = try ProgramRun.run("check", "--files", "-c", path)
        #expect(check.exitCode == 1 && check.outputLines == worker.errorLines)
        // Without `lanes`, the machine decides their number, but there is at least one.
        let oneMebibyte = text.replacing("lanes: 8, memoryMebibytes: 64", with: "memoryMebibytes: 1")
        try directory.write(oneMebibyte, to: "c.yaml")
        #expect(try ProgramRun.run("check", "-c", path).output.contains("worker.memoryMebibytes: 1 MiB"))
        try directory.write(text, to: "c.yaml")
        // Without `--files` the check finds the same faults, except for the missing file.
        #expect(
            try ProgramRun.run("check", "-c", path).outputLines
                == worker.errorLines.filter { !$0.contains("/nowhere.pem") }
        )
    }

    @Test func `Each missing or empty file of Kafka's properties is named, also beside other faults`() throws {
        let directory = try TemporaryDirectory()
        try directory.write("hello", to: "hello.pem")
        let hello = directory.path("hello.pem")
        let path = try writeConfiguration(directory)
        let text = try String(contentsOfFile: path, encoding: .utf8)
            .replacing(
                #"bootstrapServers: "127.0.0.1:1"}"#,
                with: #"bootstrapServers: "127.0.0.1:1", properties: {security.protocol: ssl},"#
                    + "\n  consumer: {ssl.certificate.location: /no/c.pem, ssl.key.location: /no/k.pem,"
                    + "\n    ssl.ca.location: \(hello)},\n  producer: {ssl.ca.location: /no/ca.pem, nor.this: 1}}"
            )
        try directory.write(text, to: "c.yaml")
        let worker = try ProgramRun.run("worker", "-c", path)
        #expect(
            worker.errorLines.map { $0.replacing(directory.url.path + "/", with: "") } == [
                "c.yaml:4:14: kafka.consumer.ssl.certificate.location: /no/c.pem: cannot be opened: No such file or directory",
                "c.yaml:4:51: kafka.consumer.ssl.key.location: /no/k.pem: cannot be opened: No such file or directory",
                "c.yaml:5:5: kafka.consumer.ssl.ca.location: hello.pem: no certificate or crl found",
                "c.yaml:6:14: kafka.producer.ssl.ca.location: /no/ca.pem: cannot be opened: No such file or directory",
                "c.yaml:6:43: kafka.producer.nor.this: librdkafka does not know this property",
            ]
        )
        let sent = try ProgramRun.run(
            "send",
            "-b",
            "127.0.0.1:1",
            "-X",
            "security.protocol=ssl",
            "-X",
            "ssl.ca.location=\(hello)",
            input: "{}"
        )
        #expect(sent.errorLines == ["causeway send: property ssl.ca.location: \(hello): no certificate or crl found"])
    }

    @Test func `A missing authority of Kafka is a fault where files are required, and no fault on another machine`()
        throws
    {
        let directory = try TemporaryDirectory()
        let path = try writeConfiguration(directory)
        let text = try String(contentsOfFile: path, encoding: .utf8)
            .replacing(
                #"bootstrapServers: "127.0.0.1:1"}"#,
                with: #"bootstrapServers: "127.0.0.1:1", "#
                    + "properties: {security.protocol: ssl, ssl.ca.location: /nowhere.pem}}"
            )
        try directory.write(text, to: "c.yaml")
        let worker = try ProgramRun.run("worker", "-c", path)
        #expect(worker.exitCode == 78)
        let reason = "/nowhere.pem: cannot be opened: No such file or directory"
        #expect(worker.errorLines == ["\(path):3:79: kafka.properties.ssl.ca.location: \(reason)"])
        let sent = try ProgramRun.run(
            "send",
            "-b",
            "127.0.0.1:1",
            "-X",
            "security.protocol=ssl",
            "-X",
            "ssl.ca.location=/nowhere.pem",
            input: "{}"
        )
        #expect(sent.errorLines == ["causeway send: property ssl.ca.location: \(reason)"])
        let topics = try ProgramRun.run("topics", "--create", "-c", path)
        #expect(topics.errorLines == ["causeway topics: property ssl.ca.location: \(reason)"])
        #expect(try ProgramRun.run("check", "--files", "-c", path).outputLines == worker.errorLines)
        let checkWithoutFiles = try ProgramRun.run("check", "-c", path)
        #expect(checkWithoutFiles.exitCode == 0 && checkWithoutFiles.output.isEmpty, "\(checkWithoutFiles.output)")
    }

    @Test func `A worker whose configuration file does not exist exits with 78`() throws {
        let run = try ProgramRun.run("worker", "--config", "/nowhere.yaml")
        #expect(run.exitCode == 78)
        #expect(run.errorLines == ["/nowhere.yaml: cannot be opened: No such file or directory"])
    }
}
