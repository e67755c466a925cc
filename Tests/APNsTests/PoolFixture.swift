import APNs
import Reactor
import Testbed
import Testing

/// A pool that is tested against a server. Both run on one loop, so a test runs both with ``runLoop(until:)``. The
/// recorder keeps the pool's responses and events.
final class PoolFixture {
    let loop: EventLoop
    let server: PushServer
    let recorder = PushRecorder()
    let pool: Pool
    private let body: UnsafeMutableRawBufferPointer
    private let deviceTokenBytes: Int

    init(deviceTokenBytes: Int = 64, bodyBytes: Int = 360, _ adjust: (inout PoolConfiguration) -> Void = { _ in })
        throws
    {
        let files = try TestCredentials.files.get()
        loop = try EventLoop()
        server = try PushServer(
            loop: loop,
            tls: .server(
                certificateFile: files.certificateFile,
                keyFile: files.keyFile,
                applicationProtocols: ["h2"]
            )
        )
        var configuration = try PoolFixture.configuration(port: server.port)
        adjust(&configuration)
        pool = try Pool(
            loop: loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: recorder
        )
        self.deviceTokenBytes = deviceTokenBytes
        body = .allocate(byteCount: bodyBytes, alignment: 16)
        for index in 0..<bodyBytes { body[index] = UInt8(ascii: "a") + UInt8(index % 26) }
    }

    deinit {
        pool.close()
        server.stop()
        // The loop and a stream that waits for the end of the iteration retain each other. One more iteration frees
        // both.
        loop.runIteration(waitMilliseconds: 0)
        body.deallocate()
    }

    static func configuration(port: UInt16) throws -> PoolConfiguration {
        var configuration = PoolConfiguration(
            host: "127.0.0.1",
            port: port,
            tls: try .client(caFile: TestCredentials.files.get().caFile, applicationProtocols: ["h2"]),
            serverName: "localhost",
            appHeaders: try AppPushHeaders(liveActivitiesOf: "com.example.scores")
        )
        configuration.connectionsMax = 1
        configuration.openingIntervalMilliseconds = 0
        configuration.backoffBaseMilliseconds = 1
        configuration.backoffJitterMillisecondsMax = 20
        return configuration
    }

    var bodyContent: [UInt8] { Array(body) }

    /// Returns a device token of 64 hexadecimal digits, or of the requested number, that ends in the tag.
    func deviceToken(_ tag: UInt64) -> [UInt8] {
        let digits = String(tag, radix: 16)
        return Array(String(repeating: "0", count: deviceTokenBytes - digits.utf8.count).utf8) + Array(digits.utf8)
    }

    func submit(_ tag: UInt64, priority: UInt8 = 5, expirationSeconds: Int64 = 1_790_000_000, avoiding: UInt32? = nil)
        -> Bool
    {
        deviceToken(tag)
            .withUnsafeBytes { token in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        address: token,
                        priority: priority,
                        expirationSeconds: expirationSeconds,
                        identifier: (0x1234_5678_9abc_def0, tag),
                        body: UnsafeRawBufferPointer(body),
                        avoidedConnectionNumber: avoiding
                    )
                )
            }
    }

    func submit(
        _ tag: UInt64,
        toChannel channel: String,
        priority: UInt8 = 5,
        expirationSeconds: Int64 = 0,
        bodyBytes count: Int? = nil
    ) -> Bool {
        Array(channel.utf8)
            .withUnsafeBytes { channel in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        address: channel,
                        isBroadcast: true,
                        priority: priority,
                        expirationSeconds: expirationSeconds,
                        identifier: (0x1234_5678_9abc_def0, tag),
                        body: UnsafeRawBufferPointer(rebasing: body[..<(count ?? body.count)])
                    )
                )
            }
    }

    /// Runs the loop until the condition holds. Fails the test if it does not hold in time.
    func runLoop(until condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation) {
        Testbed.runLoop(loop, until: condition, sourceLocation: sourceLocation)
    }

    /// Starts the pool, and sends single pushes until this many connections accept pushes in parallel. The tags of
    /// these pushes begin at 1,000,000.
    func warmUp(connectionCount: Int = 1, sourceLocation: SourceLocation = #_sourceLocation) {
        pool.start()
        var tag: UInt64 = 1_000_000
        runLoop(
            until: {
                if authenticatedConnectionCount >= connectionCount { return pool.inFlightPushCount == 0 }
                if submit(tag) { tag += 1 }
                return false
            },
            sourceLocation: sourceLocation
        )
    }

    var authenticatedConnectionCount: Int {
        recorder.events.count { if case .authenticated = $0 { true } else { false } }
    }
}
