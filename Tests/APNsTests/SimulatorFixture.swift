import APNsSimulator
import Foundation
import Glibc
import Testbed
import Testing

@testable import APNs
@testable import Reactor

/// A simulator with one phone that has a Live Activity. Tests send pushes to this activity through a pool, and read the
/// simulator's log of the pushes.
struct SimulatorFixture {
    static let app = "com.example.scores"

    let simulator: Simulator
    let token: String
    private let logFile: String

    static func run(
        _ adjust: (inout SimulatorConfiguration) -> Void = { _ in },
        _ body: (SimulatorFixture) async throws -> Void
    ) async throws {
        let files = try TestCredentials.files.get()
        let logFile = files.directory + "/push-log-\(UUID().uuidString)"
        var configuration = SimulatorConfiguration(
            transportSecurity: .certificate(certificateFile: files.certificateFile, keyFile: files.keyFile),
            keys: [
                .init(
                    teamId: "DEF123GHIJ",
                    keyId: "ABC123DEFG",
                    pem: try String(contentsOfFile: files.signingKeyFile, encoding: .utf8)
                )
            ]
        )
        configuration.controlPort = nil
        configuration.pushLogFile = logFile
        configuration.seed = 1
        adjust(&configuration)
        let simulator = Simulator(configuration)
        try await simulator.start()
        let token = try await simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
            try devices.declareApp(app, teamId: "DEF123GHIJ", types: [match])
            try devices.install(app: app, device: "phone", nowMilliseconds: nowMilliseconds)
            try devices.start(
                .init(
                    activity: "m1",
                    device: "phone",
                    attributesType: match.name,
                    attributes: #"{"matchId":"m1"}"#,
                    contentState: #"{"home":0}"#,
                    timestamp: nowMilliseconds / 1_000 - 60
                ),
                app: app,
                nowMilliseconds: nowMilliseconds
            )
            return try devices.token(ofActivity: "m1", app: app) ?? ""
        }
        do {
            try await body(SimulatorFixture(simulator: simulator, token: token, logFile: logFile))
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
        unlink(logFile)
    }

    private static var match: DeviceModel.TypeDeclaration {
        get throws(DeviceModel.Fault) {
            guard let attributes = try? Shape(json: #"{"matchId":"string"}"#),
                let contentState = try? Shape(json: #"{"home":"int"}"#)
            else { throw .unknownAttributesType("MatchAttributes") }
            return .init(
                name: "MatchAttributes",
                attributes: attributes,
                contentState: contentState,
                identifierAttribute: "matchId"
            )
        }
    }

    /// The simulator's log line about one attempt to send a push.
    struct LogEntry {
        var status: Int
        var reason: String
        /// Whether the push reached its phone.
        var isApplied: Bool
    }

    /// Returns the log lines of each push, by its tag. The log is complete only after the simulator has stopped.
    func log() throws -> [UInt64: [LogEntry]] {
        var entries: [UInt64: [LogEntry]] = [:]
        for line in try String(contentsOfFile: logFile, encoding: .utf8).split(separator: "\n") {
            let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            let identifier = try #require(object["apnsId"] as? String).filter { $0 != "-" }
            let tag = try #require(UInt64(identifier.suffix(16), radix: 16))
            entries[tag, default: []]
                .append(
                    LogEntry(
                        status: try #require(object["status"] as? Int),
                        reason: object["reason"] as? String ?? "",
                        isApplied: object["effect"] != nil
                    )
                )
        }
        return entries
    }

    /// Sends this many pushes. Sends each push again until it is accepted, refused for good, or ambiguous.
    func send(
        _ count: Int,
        _ adjust: @escaping @Sendable (inout PoolConfiguration) -> Void
    ) async throws -> SentPushes {
        try await send(count, lookUp: lookUpWithSystem, adjust)
    }

    /// - Parameter lookUp: resolves the pool's host name.
    func send(
        _ count: Int,
        lookUp: @escaping Resolver.HostLookup,
        _ adjust: @escaping @Sendable (inout PoolConfiguration) -> Void
    ) async throws -> SentPushes {
        let (port, token) = (simulator.port, token)
        return try await onOwnThread { try SentPushes.send(count, port: port, token: token, lookUp, adjust) }
    }
}

/// What a run of `send` saw: the responses to the attempts of each push, and the events of the pool's connections.
struct SentPushes: Sendable {
    /// The responses to the attempts of each push, in order, by the push's tag.
    var responses: [UInt64: [RecordedResponse]] = [:]
    var closeCauses: [CloseCause] = []
    var connectionAttemptCount = 0
    /// The number of GOAWAY notices that the pool got.
    var goAwayCount = 0
    /// The stream limits of all connections: for each connection, the limit when it was authenticated, and each changed
    /// limit after that.
    var streamLimits: [Int] = []
    /// The maximum number of pushes in flight on all connections together.
    var peakInFlightPushCount = 0
    /// How often a send window stopped a connection: after the pool had taken all pushes that it could, the connection
    /// had free streams, but too small a window.
    var windowStopCount = 0
    /// The room left in each connection's window after the last response, in bytes.
    var sendWindowsLeftBytes: [Int64] = []

    func count(_ disposition: ResponseDisposition) -> Int {
        responses.values.count { $0.last?.disposition == disposition }
    }

    func countResponses(_ isCounted: (RecordedResponse) -> Bool) -> Int {
        responses.values.reduce(0) { $0 + $1.count(where: isCounted) }
    }

    fileprivate static func send(
        _ count: Int,
        port: UInt16,
        token: String,
        _ lookUp: @escaping Resolver.HostLookup,
        _ adjust: (inout PoolConfiguration) -> Void
    ) throws -> SentPushes {
        let sender = try Sender(count: count, port: port, token: token, adjust)
        sender.loop.hostLookup = lookUp
        defer {
            sender.pool.close()
            // The loop retains handlers until the end of an iteration, so one more iteration frees them.
            sender.loop.runIteration(waitMilliseconds: 0)
        }
        try sender.run()
        return SentPushes(
            responses: sender.recorder.responsesByTag,
            closeCauses: sender.recorder.closeCauses,
            connectionAttemptCount: Int(sender.pool.statistics.connectionAttemptCount),
            goAwayCount: sender.recorder.events.count { if case .goAway = $0 { true } else { false } },
            streamLimits: sender.recorder.events.compactMap {
                switch $0 {
                case .authenticated(_, let streamsMax), .streamLimitChanged(_, let streamsMax): streamsMax
                default: nil
                }
            },
            peakInFlightPushCount: sender.peakInFlightPushCount,
            windowStopCount: sender.windowStopCount,
            sendWindowsLeftBytes: sender.sendWindowsLeftBytes
        )
    }

    /// Sends each push again as long as its response permits that, if possible on another connection. Unlike a lane, it
    /// does not wait before it sends a push again. An ambiguous push is not sent again, because a phone may have it.
    private final class Sender {
        let loop: EventLoop
        let recorder = PushRecorder()
        let pool: Pool
        private let token: [UInt8]
        private let body: [UInt8]
        private var waitingPushes: [(tag: UInt64, avoidedConnectionNumber: UInt32?)]
        private var unfinishedPushCount: Int
        private(set) var peakInFlightPushCount = 0
        private(set) var windowStopCount = 0
        private(set) var sendWindowsLeftBytes: [Int64] = []

        init(count: Int, port: UInt16, token: String, _ adjust: (inout PoolConfiguration) -> Void) throws {
            loop = try EventLoop()
            self.token = Array(token.utf8)
            body = Array(#"{"aps":{"timestamp":\#(time(nil)),"event":"update","content-state":{"home":1}}}"#.utf8)
            waitingPushes = (0..<UInt64(count)).reversed().map { ($0, nil) }
            unfinishedPushCount = count
            var configuration = try PoolFixture.configuration(port: port)
            configuration.connectionsMax = 2
            configuration.connectionsMin = 2
            adjust(&configuration)
            pool = try Pool(
                loop: loop,
                configuration: configuration,
                tokenSource: TestCredentials.makeTokenSource(),
                handler: recorder
            )
        }

        func run() throws {
            recorder.onResponse = { [unowned self] response in
                switch response.disposition {
                case .retrySoon, .retryLater, .throttled, .refreshProviderToken:
                    waitingPushes.append((response.tag, response.connectionNumber))
                case .accepted, .ambiguous, .rejected, .providerRefused, .tokenDead, .tokenSuspect, .topicSuspect,
                    .channelGone:
                    unfinishedPushCount -= 1
                }
            }
            pool.start()
            // Waits for all connections. Otherwise the first one might carry all pushes before the others are
            // ready.
            try #require(
                loop.run { pool.gauges.readyConnectionCount >= pool.configuration.connectionsMin },
                "the connections did not come up"
            )
            try token.withUnsafeBytes { token in
                try body.withUnsafeBytes { body in
                    let isFinished = loop.run(waitMilliseconds: 5, step: { fill(token, body) }) {
                        unfinishedPushCount == 0
                    }
                    try #require(isFinished, "\(unfinishedPushCount) pushes without an outcome")
                    sendWindowsLeftBytes = pool.connections.map(\.sendWindowBytes)
                    // Waits until the pool has drained, because a second response to a push would come during
                    // this time.
                    pool.drain()
                    _ = loop.run { pool.connections.isEmpty }
                }
            }
        }

        private func fill(_ token: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer) {
            while let (tag, avoidedConnectionNumber) = waitingPushes.last {
                let isTaken = pool.submit(
                    PushRequest(
                        tag: tag,
                        address: token,
                        priority: 5,
                        expirationSeconds: 0,
                        identifier: (1, tag),
                        body: body,
                        avoidedConnectionNumber: avoidedConnectionNumber
                    )
                )
                guard isTaken else { break }
                waitingPushes.removeLast()
            }
            peakInFlightPushCount = max(peakInFlightPushCount, pool.inFlightPushCount)
            windowStopCount += pool.connections.count {
                $0.streamsMax > $0.inFlightPushCount && $0.sendWindowBytes < ConnectionLimits.sendWindowBytesMin
            }
        }
    }
}
