import CausewayCommandLine
import Glibc

/// The redis-servers of a case, which may be frozen, killed, and started again, empty.
final class OutageRedis {
    private static let startMilliseconds: Int64 = 10_000

    private let kind: RedisKind
    private let stage: Stage
    private var servers: [ChildProcess?] = []
    private var ports: [UInt16] = []

    init(_ kind: RedisKind, on stage: Stage) {
        self.kind = kind
        self.stage = stage
    }

    func start() throws(LabError) {
        switch kind {
        case .single:
            servers.append(nil)
            ports.append(try LoopbackPort.free())
            try start(0)
        }
    }

    /// What a worker's configuration says of it.
    var configuration: String {
        switch kind {
        case .single: "  url: redis://127.0.0.1:\(ports[0])/0"
        }
    }

    // MARK: - Breaking

    func server(_ index: Int) throws(LabError) -> ChildProcess {
        guard servers.indices.contains(index), let server = servers[index] else {
            throw LabError("there is no redis-server \(index)")
        }
        return server
    }

    /// Without a word, as a machine that fails.
    func kill(_ index: Int) throws(LabError) {
        let server = try server(index)
        server.signal(SIGKILL)
        _ = server.wait(milliseconds: Self.startMilliseconds)
        servers[index] = nil
    }

    /// Starts it on its port. It writes nothing to disk, so it comes back empty.
    func start(_ index: Int) throws(LabError) {
        guard let program = Stage.program("redis-server") else {
            throw LabError("redis-server is not installed: apt-get install redis-server")
        }
        let log = stage.path("redis-\(index).log")
        let server = try ChildProcess(
            name: "redis-server",
            command: [
                program, "--bind", "127.0.0.1", "--port", String(ports[index]), "--save", "", "--appendonly", "no",
                "--dir", stage.directory, "--daemonize", "no",
            ],
            logFile: log
        )
        servers[index] = server
        let deadline = Clock.milliseconds + Self.startMilliseconds
        while Stage.answer(port: ports[index], to: "PING") != "+PONG" {
            guard Clock.milliseconds < deadline, server.poll() == nil else { throw server.failure("does not start") }
            usleep(5_000)
        }
    }

    func flush() throws(LabError) {
        for port in ports {
            guard Stage.answer(port: port, to: "FLUSHALL") == "+OK" else { throw LabError("Redis is not flushed") }
        }
    }

    // MARK: - Looking

    /// Of all servers together.
    func keys() throws(LabError) -> Int {
        var sum = 0
        for port in ports {
            guard let answer = Stage.answer(port: port, to: "DBSIZE"), let count = Int(answer.dropFirst()) else {
                throw LabError("Redis does not say how many keys it has")
            }
            sum += count
        }
        return sum
    }

    func stop() {
        for server in servers { server?.stop(graceMilliseconds: 0) }
    }
}
