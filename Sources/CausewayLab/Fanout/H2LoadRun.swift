import APNs
import APNsSimulator
import CausewayCommandLine
import Foundation

/// Runs h2load, the load generator of nghttp2, against the same simulated APNs, with the body of the fan-out's pushes.
/// The CPU time of h2load for a push is compared with the worker's.
struct H2LoadRun {
    private static let runMillisecondsMax: Int64 = 300_000
    private static let crowdName = "h2load-"
    /// The number of phones. h2load sends to the addresses of their activities one after the other.
    private static let phoneCount = 20_000
    private static let connectionCount = 2
    private static let streamsPerConnection = 500

    private let deployment: FanoutDeployment
    private let program: String
    private let pushCount: Int

    /// Creates phones for h2load, and the files that h2load reads.
    init(_ deployment: FanoutDeployment, pushCount: Int, body: [UInt8]) throws(LabError) {
        guard let program = Deployment.findProgram("h2load") else {
            throw LabError("h2load is not installed: run apt-get install nghttp2-client, or add --h2load-pushes 0")
        }
        self.program = program
        self.deployment = deployment
        self.pushCount = pushCount
        let client = LoopbackHTTPClient(port: deployment.simulator.controlPort)
        let crowd = FanoutCrowd(phoneCount: Self.phoneCount, name: Self.crowdName, contentTimestamp: 0, client: client)
        try crowd.createPhones()
        let addresses = (0..<Self.phoneCount)
            .map { "https://localhost:\(deployment.simulator.apnsPort)/3/device/\(crowd.compactCrowd.token($0))\n" }
        try TextFile.write(addresses.joined(), to: deployment.base.path("addresses"))
        try TextFile.write(String(decoding: body, as: UTF8.self), to: deployment.base.path("body"))
    }

    /// Runs h2load until it has sent all pushes, and returns the microseconds of CPU time that it used for each push.
    func run(eachPoll: () throws(LabError) -> Void) throws(LabError) -> Double {
        let microsecondsBefore = ProcessCPUTime.endedChildrenCPUMicroseconds
        let log = deployment.base.path("h2load.log")
        unlink(log)
        let process = try ChildProcess(name: "h2load", command: try makeCommandLine(), logFile: log)
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.runMillisecondsMax
        while process.poll() == nil {
            try eachPoll()
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                process.stop(graceMilliseconds: 0)
                throw process.makeError("does not exit")
            }
            usleep(20_000)
        }
        guard process.exitStatus == .exited(0), try countAcceptedPushes(in: log) == pushCount else {
            throw process.makeError("did not get the status 200 each time")
        }
        return Double(ProcessCPUTime.endedChildrenCPUMicroseconds - microsecondsBefore) / Double(pushCount)
    }

    private func makeCommandLine() throws(LabError) -> [String] {
        [
            program, "-n", String(pushCount), "-c", String(Self.connectionCount), "-t", "1", "-m",
            String(Self.streamsPerConnection),
            "-i", deployment.base.path("addresses"), "-d", deployment.base.path("body"),
            "-H", "authorization: bearer \(try makeProviderToken())", "-H", "apns-push-type: liveactivity",
            "-H", "apns-topic: \(FanoutDeployment.app).push-type.liveactivity", "-H", "apns-priority: 5",
            "-H", "apns-expiration: 0", "-H", "apns-id: 12345678-9abc-4ef0-8234-56789abcdef0",
        ]
    }

    private func makeProviderToken() throws(LabError) -> String {
        let endpoints = deployment.simulator
        do {
            let source = try ProviderTokenSource(
                key: try SigningKey(path: endpoints.keyFile),
                keyId: endpoints.keyId,
                teamId: endpoints.teamId
            )
            guard let token = source.provideToken(unixSeconds: Clock.wallMilliseconds / 1_000) else {
                throw LabError("the key \(endpoints.keyFile) cannot sign a provider token")
            }
            return token.text
        } catch let error as LabError {
            throw error
        } catch {
            throw LabError("the key \(endpoints.keyFile): \(error)")
        }
    }

    /// Reads the accepted pushes from h2load's output: `status codes: 100000 2xx, 0 3xx, …`.
    private func countAcceptedPushes(in log: String) throws(LabError) -> Int {
        let lines = String(decoding: try TextFile.read(log), as: UTF8.self).split(separator: "\n")
        let line = lines.last { $0.hasPrefix("status codes:") }
        return line?.split(separator: " ").dropFirst(2).first.flatMap { Int($0) } ?? 0
    }
}
