import APNs
import CAllocationCount
import Glibc
import Reactor

/// `send`: sends pushes through a pool like those of the worker, and prints their cost.
func send(_ initialArguments: Arguments) throws {
    var arguments = initialArguments
    var host = try arguments.text("host", "127.0.0.1")
    var port = try arguments.number("port", nil, in: 1...65_535)
    let caFile = try arguments.text("ca")
    let serverName = try arguments.text("server-name", "localhost")
    let connections = try arguments.number("connections", 1, in: 1...16)
    let inFlight = try arguments.number("in-flight", 1_000, in: 1...4_096)
    let count = try arguments.number("count", 200_000, in: 100...1_000_000_000)
    let rate = try arguments.number("rate", 0, in: 0...10_000_000)
    let demand = Demand(
        pushesPerSecond: rate,
        laterPushesPerSecond: try arguments.number("falls-to", rate, in: 0...10_000_000),
        changesAfterSeconds: try arguments.number("falls-after", 1_000_000, in: 1...1_000_000)
    )
    let shrinkAfterMilliseconds = try arguments.number("shrink-after", 600_000, in: 10...86_400_000)
    let latencyMilliseconds = try arguments.number("latency-model", 0, in: 0...10_000)
    let spacingMicroseconds = try arguments.number("turn-spacing", 4_000, in: 0...100_000)
    let bodyBytes = try arguments.number("body-bytes", 360, in: 0...4_096)
    let tokens = try DeviceTokens(file: arguments.optional("tokens"))
    let bundle = try arguments.text("bundle", "com.example.scores")
    let source = try ProviderTokenSource(
        key: try signingKey(arguments.optional("key")),
        keyId: arguments.text("key-id", "BENCHKEY00"),
        teamId: arguments.text("team-id", "BENCHTEAM0")
    )
    try arguments.checkAllRead()

    let relay =
        latencyMilliseconds > 0
        ? try RelayProcess(host: host, port: port, roundTripMilliseconds: latencyMilliseconds) : nil
    if let relay { (host, port) = ("127.0.0.1", relay.port) }

    let loop = try EventLoop()
    loop.iterationIntervalMicrosecondsMin = Int64(spacingMicroseconds)
    var configuration = PoolConfiguration(
        host: host,
        port: UInt16(port),
        tls: try .client(caFile: caFile, applicationProtocols: ["h2"]),
        serverName: serverName,
        appHeaders: try AppPushHeaders(liveActivitiesOf: bundle)
    )
    configuration.connectionsMax = connections
    configuration.connectionsMin = rate > 0 ? 1 : connections
    configuration.shrinkAfterMilliseconds = Int64(shrinkAfterMilliseconds)
    configuration.inFlightPushesPerConnectionMax = inFlight
    configuration.openingIntervalMilliseconds = 0
    let sender = Sender(loop: loop, count: count, demand: demand, bodyBytes: bodyBytes, tokens: tokens)
    let pool = Pool(loop: loop, configuration: configuration, tokenSource: source, handler: sender)
    sender.pool = pool
    sender.wantedConnectionCount = rate > 0 ? 1 : connections
    pool.start()
    sender.begin()
    loop.run()
    print(
        sender.report(
            connections: connections,
            inFlight: inFlight,
            latencyMilliseconds: latencyMilliseconds,
            spacingMicroseconds: spacingMicroseconds
        )
    )
    sender.pool = nil
    pool.close()
    relay?.end()
    if sender.acceptedCount != sender.responseCount {
        fail("\(sender.responseCount - sender.acceptedCount) pushes were not accepted")
    }
}

private func signingKey(_ path: String?) throws -> SigningKey {
    if let path { return try SigningKey(path: path) }
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    return try SigningKey(path: makeSigningKey(in: directory.path))
}

/// Writes a fresh P-256 key as PKCS#8 and returns its path. The certificate written with it is not used.
func makeSigningKey(in directory: String) throws -> String {
    try GeneratedCertificate.write(directory: directory + "/provider", hosts: ["localhost"]).keyFile
}

struct TemporaryDirectory {
    let path: String

    init() throws(SystemError) {
        var template = Array("/tmp/causeway-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemError(code: errno, operation: "mkdtemp") }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Removes the directory with its files. A directory in it is removed only if it has nothing but files.
    func remove() {
        for name in names(in: path) {
            for inner in names(in: "\(path)/\(name)") { unlink("\(path)/\(name)/\(inner)") }
            if rmdir("\(path)/\(name)") != 0 { unlink("\(path)/\(name)") }
        }
        rmdir(path)
    }

    private func names(in directory: String) -> [String] {
        guard let entries = opendir(directory) else { return [] }
        defer { closedir(entries) }
        var names: [String] = []
        while let entry = readdir(entries) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}

/// The device tokens of the pushes: the tokens of a file in turn, or a different token for each push.
final class DeviceTokens {
    private var fileTokens: [[UInt8]] = []
    private var nextIndex = 0
    private let generatedToken = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 16)

    init(file: String?) throws(Arguments.ArgumentError) {
        guard let file else { return }
        guard let stream = fopen(file, "r") else { throw Arguments.ArgumentError(description: "cannot read \(file)") }
        defer { fclose(stream) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), stream) != nil {
            let text = line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:))
            guard text.withUnsafeBytes({ PushRequest.isDeviceToken($0) }) else {
                throw Arguments.ArgumentError(description: "\(file) holds a line that is no device token")
            }
            fileTokens.append(text)
        }
    }

    deinit { generatedToken.deallocate() }

    /// Passes the next token to the body. The bytes are valid until the next call.
    func withNext<Result>(_ number: UInt64, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        guard fileTokens.isEmpty else {
            nextIndex = nextIndex + 1 < fileTokens.count ? nextIndex + 1 : 0
            return fileTokens[nextIndex].withUnsafeBytes(body)
        }
        // 64 digits that depend on all bits of the number.
        var bits = number &* 0x9E37_79B9_7F4A_7C15
        for part in 0..<8 {
            bits ^= bits >> 29
            bits = bits &* 0xBF58_476D_1CE4_E5B9
            var digits = bits & 0x0F0F_0F0F_0F0F_0F0F
            let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
            digits = digits &+ 0x3030_3030_3030_3030 &+ letters &* 39
            generatedToken.storeBytes(of: digits, toByteOffset: 8 * part, as: UInt64.self)
        }
        return body(UnsafeRawBufferPointer(generatedToken))
    }
}
