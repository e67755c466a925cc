import LiveActivity
import Reactor
import RedisTestbed
import Testbed

@testable import ActivityStore
@testable import Redis

/// A redis-server for one test. It stores nothing on disk and listens on a Unix socket and on an ephemeral loopback port.
final class RedisServer {
    private let directory: TemporaryDirectory
    let port: UInt16
    let tlsPort: UInt16
    private let process: RedisProcess

    var socketPath: String { directory.path("redis.sock") }
    var unixURL: String { "unix://\(socketPath)" }

    /// - Parameter tls: certificate, key and authority.
    init(_ arguments: [String] = [], tls: (caFile: String, certificateFile: String, keyFile: String)? = nil) throws {
        directory = try TemporaryDirectory()
        port = try Listener.unusedLoopbackPort()
        tlsPort = try tls == nil ? 0 : Listener.unusedLoopbackPort()
        var all = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--logfile", ""]
        all += ["--port", String(port), "--unixsocket", directory.path("redis.sock"), "--dir", directory.path]
        if let tls {
            all += ["--tls-port", String(tlsPort), "--tls-auth-clients", "no", "--tls-ca-cert-file", tls.caFile]
            all += ["--tls-cert-file", tls.certificateFile, "--tls-key-file", tls.keyFile]
        }
        process = try RedisProcess(all + arguments)
    }

    deinit {
        // Before its directory is removed.
        process.kill()
    }

    func start() throws { try process.start() }
    func kill() { process.kill() }
    func suspend() { process.suspend() }
    func resume() { process.resume() }

    func restart() throws {
        process.kill()
        try process.start()
    }

    /// Runs a command on a separate connection, and returns all strings and numbers of the reply.
    @discardableResult
    func command(_ arguments: String..., user: String? = nil, password: String? = nil) -> [[UInt8]] {
        guard let client = BlockingClient(socketPath: socketPath) else { return [] }
        if let password { client.command(["AUTH"] + (user.map { [$0] } ?? []) + [password]) }
        client.append(arguments)
        return client.replyBytes()
    }

    /// The same for arguments of any bytes.
    @discardableResult
    func command(bytes words: [[UInt8]]) -> [[UInt8]] {
        guard let client = BlockingClient(socketPath: socketPath) else { return [] }
        client.append(bytes: words)
        return client.replyBytes()
    }

    /// A hash's fields that are not empty, or the parts of an activity's value.
    func hash(_ key: String) -> [String: [UInt8]] {
        if command("TYPE", key) == [Array("string".utf8)] { return activityParts(command("GET", key)[0]) }
        let flat = command("HGETALL", key)
        var fields: [String: [UInt8]] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) where !flat[index + 1].isEmpty {
            fields[String(decoding: flat[index], as: UTF8.self)] = flat[index + 1]
        }
        return fields
    }
}

/// The parts of an activity's value: its record `r`, the token `t`, its audiences `a`, the last 429 `l`, the start `b` and the held command
/// `h`.
func activityParts(_ value: [UInt8]) -> [String: [UInt8]] {
    let kind = value[StoredRecord.kind]
    var rest = value[...]
    var parts: [String: [UInt8]] = [:]
    func take(_ name: String, _ count: Int) {
        if count > 0 { parts[name] = Array(rest.prefix(count)) }
        rest = rest.dropFirst(count)
    }
    take("r", StoredRecord.token)
    // Parts that do not count may hold anything.
    if value[StoredRecord.state] & StoredRecord.StateBit.isOwnTimestamp != 0 {
        for index in StoredRecord.assigned..<StoredRecord.registeredAt { parts["r"]?[index] = 0 }
    }
    let count = Int(LittleEndian.read(value[StoredRecord.tokenCount..<StoredRecord.kind]))
    take("t", count & ~StoredRecord.countFlags)
    if count & StoredRecord.answeredAlertFollows != 0 { take("e", StoredVersion.bytes) }
    if count & StoredRecord.audiencesFollow != 0 { take("a", 2 + 8 * rest.prefix(2).reduce(0) { $0 + Int($1) }) }
    if kind & StoredRecord.Flag.retired != 0 {
        take("d", StoredRecord.retiredBytes)
        // The replies say which part this is.
        parts["d"] = [1]
    }
    if kind & StoredRecord.Flag.limited != 0 { take("l", 7) }
    if kind & StoredRecord.Flag.started != 0 { take("b", kind & StoredRecord.Flag.claimed != 0 ? 27 : 13) }
    take("h", rest.count)
    return parts
}
