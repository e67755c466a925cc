import Glibc
import Testbed
import Testing

@testable import CausewayLab

/// `OutageDeployment` runs the servers of an outage case as processes. A step of the case may end a server. If a server
/// ends for any other reason, the case fails.
@Suite("The parts of an outage case", .timeLimit(.minutes(5)), .ownThread)
struct OutageDeploymentTests {
    @Test func `A Redis that ends by itself fails the case, and one that a step kills does not`() throws {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: false) }
        let deployment = try OutageDeployment(
            OutageCase(name: "redis-ends", summary: ""),
            directory: directory.path,
            programs: ExampleRun.programs,
            rebalancingBrokerCommand: nil
        )
        defer { deployment.stop() }
        try deployment.redis.start()
        try deployment.throwIfAnyProcessHasEnded()
        try deployment.perform(.kill(.redis(0)))
        try deployment.throwIfAnyProcessHasEnded()
        try deployment.perform(.start(.redis(0)))
        let server = try deployment.redis.requireServer(0)
        server.signal(SIGKILL)
        #expect(server.wait(timeoutMilliseconds: 60_000) == .killed(signal: SIGKILL))
        let error = #expect(throws: LabError.self) { try deployment.throwIfAnyProcessHasEnded() }
        #expect(error?.reason.hasPrefix("the redis-server ") == true)
    }
}
