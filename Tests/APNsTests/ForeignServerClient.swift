import APNs
import CLinux
import Glibc
import Reactor
import Testbed
import Testing

/// A client that sends pushes as fast as its pool accepts them. It connects again until the server listens.
final class ForeignServerClient {
    let loop: EventLoop
    let recorder = PushRecorder()
    let pool: Pool
    private let body = UnsafeMutableRawBufferPointer.allocate(byteCount: 600, alignment: 16)
    private var nextTag: UInt64 = 0
    private let channel: [UInt8]?

    /// - Parameters:
    ///   - channel: every second push is a broadcast to this channel; nil sends no broadcasts.
    ///   - refusalsMax: how many refusals of the provider open the breaker. A server that is no APNs may refuse all
    ///     pushes.
    init(port: UInt16, channel: String? = nil, refusalsMax: Int? = nil) throws {
        self.channel = channel.map { Array($0.utf8) }
        loop = try EventLoop()
        var configuration = try PoolFixture.configuration(port: port)
        configuration.backoffBaseMilliseconds = 20
        configuration.backoffJitterMillisecondsMax = 20
        if let refusalsMax { configuration.breaker.providerTokenRefusalsMax = refusalsMax }
        pool = try Pool(
            loop: loop,
            configuration: configuration,
            tokenSource: TestCredentials.makeTokenSource(),
            handler: recorder
        )
        body.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "x"))
    }

    deinit { body.deallocate() }

    func begin(totalCount: UInt64) {
        recorder.onRoom = { [unowned self] _ in fill(totalCount) }
        recorder.onResponse = { [unowned self] _ in fill(totalCount) }
        pool.start()
        fill(totalCount)
    }

    private func fill(_ totalCount: UInt64) {
        while nextTag < totalCount, submit() { nextTag += 1 }
    }

    /// Sends one broadcast as soon as the pool accepts it.
    func broadcast(
        _ body: [UInt8],
        to channel: String,
        priority: UInt8,
        expirationSeconds: Int64,
        identifier: (UInt64, UInt64)
    ) -> Bool {
        let tag = nextTag
        nextTag += 1
        return runLoop(until: {
            Array(channel.utf8)
                .withUnsafeBytes { channel in
                    body.withUnsafeBytes { body in
                        pool.submit(
                            PushRequest(
                                tag: tag,
                                address: channel,
                                isBroadcast: true,
                                priority: priority,
                                expirationSeconds: expirationSeconds,
                                identifier: identifier,
                                body: body
                            )
                        )
                    }
                }
        })
    }

    private func submit() -> Bool {
        if let channel, nextTag.isMultiple(of: 2) { return submit(to: channel) }
        let digits = String(nextTag, radix: 16)
        let token = Array((String(repeating: "0", count: 64 - digits.utf8.count) + digits).utf8)
        return token.withUnsafeBytes { token in
            pool.submit(
                PushRequest(
                    tag: nextTag,
                    address: token,
                    priority: 5,
                    expirationSeconds: 0,
                    identifier: (1, nextTag),
                    body: UnsafeRawBufferPointer(rebasing: body[..<Int(300 + nextTag % 300)])
                )
            )
        }
    }

    private func submit(to channel: [UInt8]) -> Bool {
        channel.withUnsafeBytes { channel in
            pool.submit(
                PushRequest(
                    tag: nextTag,
                    address: channel,
                    isBroadcast: true,
                    priority: 10,
                    expirationSeconds: 0,
                    identifier: (1, nextTag),
                    body: UnsafeRawBufferPointer(rebasing: body[..<Int(300 + nextTag % 300)])
                )
            )
        }
    }

    /// Runs the loop until the condition holds. Returns false if it does not hold in time.
    func runLoop(until condition: () -> Bool) -> Bool { loop.run(until: condition) }
}

/// An independent server as a separate process.
struct ForeignProcess {
    let port: UInt16
    private let process: pid_t

    /// Returns the first of the paths that is an executable program.
    static func findExecutable(_ paths: [String]) -> String? { paths.first { access($0, X_OK) == 0 } }

    /// - Parameters:
    ///   - words: the program's path and its arguments.
    ///   - log: the file for the program's output.
    init(port: UInt16, _ words: [String], log: String = "/dev/null") throws {
        self.port = port
        var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        vector.append(nil)
        defer { for argument in vector { free(argument) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)
        for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
            posix_spawn_file_actions_addopen(&actions, descriptor, log, O_RDWR | O_CREAT | O_APPEND, 0o600)
        }
        // The child must not inherit the writing end of another test's pipe. Otherwise the pipe's reader would wait
        // until this child ends.
        CLinux_posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)
        var child: pid_t = 0
        var result: Int32 = 0
        ProcessStartLock.runExclusively { result = posix_spawn(&child, words[0], &actions, nil, vector, environ) }
        guard result == 0 else { throw SystemError(code: result, operation: "posix_spawn") }
        process = child
    }

    /// Sends SIGTERM to the server.
    func terminate() { Glibc.kill(process, SIGTERM) }

    func kill() {
        Glibc.kill(process, SIGKILL)
        waitpid(process, nil, 0)
    }
}
