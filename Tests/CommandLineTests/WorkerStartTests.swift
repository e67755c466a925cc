import Foundation
import Testbed
import Testing

@Suite("causeway worker: its start", .ownThread)
struct WorkerStartTests {
    @Test func `A wrong configuration: every fault in a line on standard error, exit code 78`() throws {
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

    @Test func `No configuration at all: the missing keys, exit code 78`() throws {
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

    @Test func `A file that does not exist: exit code 78`() throws {
        let run = try ProgramRun.run("worker", "--config", "/nowhere.yaml")
        #expect(run.exitCode == 78)
        #expect(run.errorLines == ["/nowhere.yaml: cannot be opened: No such file or directory"])
    }
}
