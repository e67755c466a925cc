import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A worker has as many lanes as processors that it may use", .timeLimit(.minutes(10)))
struct LaneCountTests {
    /// In the first case the worker may use all processors of the test's process. In the second case it may use only
    /// processor 0, so it has one lane.
    @Test(arguments: [(nil, nil), ("0", 1)] as [(String?, Int?)])
    func `A worker has at most one lane for each processor that it may use`(
        processors: String?,
        expectedLaneCount: Int?
    ) async throws {
        try await onOwnThread {
            let directory = try WorkDirectory()
            defer { directory.remove(keeping: false) }
            let deployment = try Deployment(directory: directory.path, programs: ExampleRun.programs)
            defer { deployment.stop() }
            let shapes = ExampleFiles("ride").path("shapes.json")
            try deployment.startBroker()
            try deployment.startRedis()
            try deployment.startSimulator(shapes: [shapes])
            let text = WorkerConfigurationText.makeYAML(
                deployment: deployment,
                apps: [.init(name: "ride", bundleId: "com.example.ride")],
                laneCount: 0
            )
            try TextFile.write(text, to: deployment.path("causeway.yaml"))
            let workerArguments = ["worker", "--config", deployment.path("causeway.yaml")]
            deployment.processesExceptWorker.append(
                try ChildProcess(
                    name: "worker",
                    command: (processors.map { ["/usr/bin/taskset", "-c", $0] } ?? []) + [ExampleRun.programs.causeway]
                        + workerArguments,
                    logFile: deployment.path("worker.log")
                )
            )
            var log = ""
            try eventually("the worker's start") {
                try deployment.throwIfAnyProcessHasEnded()
                log = try String(contentsOfFile: deployment.path("worker.log"), encoding: .utf8)
                return log.contains("worker started")
            }
            // Without a fixed number, a worker has at most one lane for each processor that its process may use. A CPU
            // quota may lower the number.
            let usableProcessorCount = try #require(Int(try runProgram("/usr/bin/nproc", []).text.filter(\.isNumber)))
            let laneCount = try #require(log.firstMatch(of: /worker started .*lanes=([0-9]+)/).flatMap { Int($0.1) })
            #expect(expectedLaneCount.map { laneCount == $0 } ?? (1...usableProcessorCount).contains(laneCount))
        }
    }
}
