import CausewayCommandLine
import Foundation

/// The deployment's redis-server, which the lab can stop and start again.
extension Deployment {
    private static let redisExecutable = "redis-server"
    /// How many ports are tried. Another process may take a free port before redis-server does.
    private static let portAttemptsMax = 5
    /// The maximum number of bytes that are read of a reply. Every reply here is one line.
    private static let replyBytesMax = 512

    /// Starts a redis-server on a free port. The server writes its data to disk only for `SHUTDOWN SAVE`.
    func startRedis() throws(LabError) {
        for _ in 0..<Self.portAttemptsMax {
            let port = try LoopbackPort.findFree()
            if try startRedis(port: port) {
                redisPort = port
                return
            }
        }
        throw LabError("redis-server did not start", logTail: TextFile.readLastLines(of: path("redis.log"), 20))
    }

    /// Stops Redis after it has written its data to disk, so that ``restartRedis()`` loses nothing.
    func stopRedis() throws(LabError) {
        guard let redisIndex = processesExceptWorker.firstIndex(where: { $0.name == Self.redisExecutable }) else {
            return
        }
        let redis = processesExceptWorker.remove(at: redisIndex)
        _ = Self.requestRedisReply(port: redisPort, to: "SHUTDOWN SAVE")
        guard redis.wait(timeoutMilliseconds: Self.processWaitMillisecondsMax) == .exited(0) else {
            throw redis.makeError("does not shut down")
        }
    }

    /// Starts Redis on the same port again, with the data that it has written to disk, if any.
    func restartRedis() throws(LabError) {
        guard try startRedis(port: redisPort) else {
            throw LabError(
                "redis-server did not start again",
                logTail: TextFile.readLastLines(of: path("redis.log"), 20)
            )
        }
    }

    /// Makes the running Redis lose all its data. The worker must notice this and read its records again.
    func wipeRedis() throws(LabError) { try runRedisCommand("FLUSHALL") }

    /// Runs a Redis command whose only correct reply is OK.
    func runRedisCommand(_ command: String) throws(LabError) {
        guard Self.requestRedisReply(port: redisPort, to: command) == "+OK" else {
            throw LabError("Redis refused \(command)")
        }
    }

    /// Kills Redis and starts an empty one on the same port. Also removes the file with data that an earlier
    /// ``stopRedis()`` may have left.
    func replaceRedis() throws(LabError) {
        guard let redisIndex = processesExceptWorker.firstIndex(where: { $0.name == Self.redisExecutable }) else {
            return
        }
        processesExceptWorker.remove(at: redisIndex).stop(graceMilliseconds: 0)
        unlink(path("dump.rdb"))
        try restartRedis()
    }

    /// Returns the number of keys in Redis, without marks (`PartitionMark`).
    func countRedisKeys() throws(LabError) -> Int { try Self.countRedisKeys(port: redisPort) }

    /// Returns the number of marks (`PartitionMark`) in Redis.
    func countRedisMarks() throws(LabError) -> Int {
        try Self.evaluateCount(port: redisPort, "#redis.call('KEYS', '{causeway/mark*')")
    }

    /// Returns the number of keys in a redis-server, without marks (`PartitionMark`).
    static func countRedisKeys(port: UInt16) throws(LabError) -> Int {
        try evaluateCount(port: port, "redis.call('DBSIZE') - #redis.call('KEYS', '{causeway/mark*')")
    }

    private static func evaluateCount(port: UInt16, _ expression: String) throws(LabError) -> Int {
        let reply = requestRedisReply(port: port, to: "EVAL \"return \(expression)\" 0")
        guard let reply, let count = Int(reply.dropFirst()) else {
            throw LabError("Redis did not report its number of keys")
        }
        return count
    }

    /// Starts redis-server on this port. Returns false if redis-server ended or did not respond in time.
    private func startRedis(port: UInt16) throws(LabError) -> Bool {
        guard let program = Self.findProgram(Self.redisExecutable) else {
            throw LabError("redis-server is not installed: run apt-get install redis-server")
        }
        let redis = try ChildProcess(
            name: Self.redisExecutable,
            command: [
                program, "--bind", "127.0.0.1", "--port", String(port), "--save", "", "--appendonly", "no",
                "--dir", directory, "--daemonize", "no",
            ],
            logFile: path("redis.log")
        )
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.processWaitMillisecondsMax
        while Clock.monotonicMilliseconds < deadlineMilliseconds, redis.poll() == nil {
            if Self.requestRedisReply(port: port, to: "PING") == "+PONG", redis.poll() == nil {
                processesExceptWorker.append(redis)
                return true
            }
            // Sleep and try again, because redis-server does not report when it begins to listen.
            usleep(5_000)
        }
        redis.stop(graceMilliseconds: 0)
        return false
    }

    /// Returns the first line of Redis' reply to a command, such as `+OK` or `:3`. Returns nil if no complete line of
    /// fewer than `replyBytesMax` bytes comes.
    static func requestRedisReply(port: UInt16, to command: String) -> String? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        guard LoopbackPort.connect(descriptor, to: port) else { return nil }
        let line = Array("\(command)\r\n".utf8)
        guard send(descriptor, line, line.count, Int32(MSG_NOSIGNAL)) == line.count else { return nil }
        var reply: [UInt8] = []
        var byte: UInt8 = 0
        while reply.count < replyBytesMax, recv(descriptor, &byte, 1, 0) == 1 {
            if byte == UInt8(ascii: "\r") { return String(decoding: reply, as: UTF8.self) }
            reply.append(byte)
        }
        return nil
    }

    static func findProgram(_ name: String) -> String? {
        let directories = (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":").map(String.init)
        return (directories + ["/usr/bin", "/usr/local/bin"]).map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}
