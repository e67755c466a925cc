import Glibc
import Reactor
import Testing

@testable import APNs

/// Against nghttp2's own server, which is not ours: what it makes of our frames, and we of its.
@Suite(.enabled(if: Nghttpd.path != nil, "nghttpd is not installed")) struct ForeignServerTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let options: [String]
        let status: UInt16
        var testDescription: String { options.joined(separator: " ") }

        init(_ options: [String], _ status: UInt16) {
            self.options = options
            self.status = status
        }
    }

    @Test(arguments: [
        // Without a file for the path: 404 with a body of HTML.
        Case([], 404),
        Case(["--early-response"], 404),
        Case(["--no-content-length"], 404),
        Case(["--echo-upload"], 200),
        Case(["--echo-upload", "--max-concurrent-streams=7"], 200),
        // Windows of 255 bytes: each body goes out in pieces.
        Case(["--echo-upload", "--window-bits=8"], 200),
        Case(["--echo-upload", "--padding=200"], 200),
        Case(["--echo-upload", "--trailer=x-end: yes"], 200),
        Case(["--echo-upload", "--header-table-size=0", "--encoder-header-table-size=0"], 200),
    ])
    func everyPushIsAnswered(_ given: Case) throws {
        let server = try Nghttpd(given.options)
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 1_500)
        #expect(client.turn(until: { client.recorder.answers == 1_500 }))
        #expect(client.recorder.outcomes.values.allSatisfy { $0.map(\.status) == [given.status] })
        // The server takes a moment to listen; then one connection carries all.
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// The server dies in the middle: each push in flight comes to one answer, and a new server gets the rest.
    @Test func serverThatDies() throws {
        var server = try Nghttpd(["--echo-upload"])
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 6_000)
        #expect(client.turn(until: { client.recorder.answers >= 1_000 }))
        server.kill()
        #expect(client.turn(until: { client.recorder.closeCauses.contains(.connectionLost) }))
        server = try Nghttpd(["--echo-upload"], port: server.port)
        #expect(client.turn(until: { client.recorder.answers == 6_000 }))
        #expect(client.recorder.answeredOnce == 6_000)
        let lost = client.recorder.count(.ambiguous) + client.recorder.count(.notProcessed)
        #expect(lost <= 1_000)
        #expect(client.recorder.count(.answered) == 6_000 - lost)
    }
}

/// A process of nghttpd's.
private struct Nghttpd {
    private static let places: [String] = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"]
    static let path: String? = places.first { access($0, X_OK) == 0 }

    let port: UInt16
    private let process: pid_t

    init(_ options: [String], port wanted: UInt16? = nil) throws {
        let files = try Shared.files.get()
        let path = try #require(Nghttpd.path)
        port = if let wanted { wanted } else { try Nghttpd.freePort() }
        let words =
            [path, "--address=127.0.0.1", "--htdocs=\(files.directory)"] + options
            + [String(port), files.keyFile, files.certificateFile]
        var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        vector.append(nil)
        defer { for word in vector { free(word) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor: Int32 in [0, 1, 2] {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
        }
        var child: pid_t = 0
        let result = posix_spawn(&child, path, &actions, nil, vector, environ)
        guard result == 0 else { throw SystemError(code: result, operation: "posix_spawn") }
        process = child
    }

    func kill() {
        Glibc.kill(process, SIGKILL)
        waitpid(process, nil, 0)
    }

    private static func freePort() throws -> UInt16 {
        final class Nothing: ListenerHandler {
            func accepted(descriptor: Int32, from: SocketAddress?) {}
        }
        let nothing = Nothing()
        let listener = try Listener(loop: EventLoop(), address: .loopback(port: 0), handler: nothing)
        defer { listener.close() }
        return listener.port
    }
}

/// A pool that sends as fast as it can, and tries again while the server is not up.
private final class ForeignClient {
    let loop: EventLoop
    let recorder = Recorder()
    let pool: Pool
    private let body = UnsafeMutableRawBufferPointer.allocate(byteCount: 600, alignment: 16)
    private var next: UInt64 = 0

    init(port: UInt16) throws {
        loop = try EventLoop()
        var configuration = try Fixture.configuration(port: port)
        configuration.backoffBaseMilliseconds = 20
        configuration.backoffMaxMilliseconds = 20
        pool = try Pool(loop: loop, configuration: configuration, tokens: Shared.tokens(), handler: recorder)
        body.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "x"))
    }

    deinit { body.deallocate() }

    func begin(total: UInt64) {
        recorder.onRoom = { [unowned self] _ in fill(total) }
        recorder.onAnswer = { [unowned self] _ in fill(total) }
        pool.start()
        fill(total)
    }

    private func fill(_ total: UInt64) {
        while next < total, submit() { next += 1 }
    }

    private func submit() -> Bool {
        let digits = String(next, radix: 16)
        let token = Array((String(repeating: "0", count: 64 - digits.utf8.count) + digits).utf8)
        return token.withUnsafeBytes { token in
            pool.submit(
                PushRequest(
                    tag: next,
                    deviceToken: token,
                    priority: 5,
                    expiration: 0,
                    identifier: (1, next),
                    body: UnsafeRawBufferPointer(rebasing: body[..<Int(300 + next % 300)])
                )
            )
        }
    }

    /// Turns until the condition holds; false if it does not in 60 s.
    func turn(until condition: () -> Bool) -> Bool {
        loop.refreshClock()
        let limit = loop.nowMilliseconds + 60_000
        while !condition() {
            guard loop.nowMilliseconds < limit else { return false }
            loop.turn(waitMilliseconds: 100)
        }
        return true
    }
}
