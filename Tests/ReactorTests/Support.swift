import COpenSSL
import Glibc
import Reactor
import Testing

/// Turns until the condition holds. Fails the test and returns after five minutes: 10 MiB through TLS take time in a debug build on a busy
/// machine.
func turn(
    _ loop: EventLoop,
    until condition: () -> Bool,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    loop.refreshClock()
    let limit = loop.nowMilliseconds + 300_000
    while !condition() {
        guard loop.nowMilliseconds < limit else {
            Issue.record("the condition did not come about in time", sourceLocation: sourceLocation)
            return
        }
        loop.turn(waitMilliseconds: 100)
    }
}

/// Turns for this number of milliseconds of the loop's clock.
func turn(_ loop: EventLoop, forMilliseconds duration: Int64) {
    loop.refreshClock()
    let end = loop.nowMilliseconds + duration
    while loop.nowMilliseconds < end {
        loop.turn(waitMilliseconds: Int32(end - loop.nowMilliseconds))
    }
}

/// Records a stream's events, and performs the test's action in each callback.
final class StreamRecorder: StreamHandler {
    private(set) var connectedCount = 0
    private(set) var received: [UInt8] = []
    private(set) var receivedCount = 0
    private(set) var drainedCount = 0
    private(set) var closed: [StreamError?] = []

    var keepsBytes = true
    var onConnected: ((Stream) -> Void)?
    var onReceived: ((Stream, UnsafeRawBufferPointer) -> Void)?
    var onDrained: ((Stream) -> Void)?
    var onClosed: ((Stream) -> Void)?

    var isClosed: Bool { !closed.isEmpty }
    /// The error that closed the stream.
    var error: StreamError? { closed.first ?? nil }

    func streamConnected(_ stream: Stream) {
        connectedCount += 1
        onConnected?(stream)
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        receivedCount += bytes.count
        if keepsBytes { received.append(contentsOf: bytes) }
        onReceived?(stream, bytes)
    }

    func streamDrained(_ stream: Stream) {
        drainedCount += 1
        onDrained?(stream)
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        closed.append(error)
        onClosed?(stream)
    }
}

/// A server on the test's own loop: each connection is a stream with a recorder.
final class TestServer: ListenerHandler {
    struct Connection {
        let descriptor: Int32
        let stream: Stream
        let recorder: StreamRecorder
    }

    let loop: EventLoop
    let tls: TLSContext?
    private(set) var listener: Listener?
    private(set) var connections: [Connection] = []
    var keepsConnections = true
    var prepare: ((StreamRecorder) -> Void)?

    init(loop: EventLoop, tls: TLSContext? = nil, address: SocketAddress = .loopback(port: 0)) throws {
        self.loop = loop
        self.tls = tls
        listener = try Listener(loop: loop, address: address, handler: self)
    }

    var address: SocketAddress { listener?.address ?? .loopback(port: 0) }

    func accepted(descriptor: Int32, from: SocketAddress?) {
        let recorder = StreamRecorder()
        prepare?(recorder)
        let stream = Stream(accepted: descriptor, loop: loop, handler: recorder, tls: tls)
        connections.append(Connection(descriptor: descriptor, stream: stream, recorder: recorder))
    }

    func forgetConnections() {
        for connection in connections { connection.stream.close() }
        connections = []
    }

    func close() {
        forgetConnections()
        listener?.close()
        listener = nil
    }
}

/// A directory that is removed, with its files, when the test releases it.
final class TemporaryDirectory: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/reactor-tests-XXXXXX".utf8CString)
        path = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    deinit {
        if let directory = opendir(path) {
            while let entry = readdir(directory) {
                let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                    String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
                }
                if name != ".", name != ".." { unlink("\(path)/\(name)") }
            }
            closedir(directory)
        }
        rmdir(path)
    }
}

/// A certificate authority and a server's certificate from it.
struct TestCertificates {
    let directory: TemporaryDirectory
    let caFile: String
    let certificateFile: String
    let keyFile: String

    init(hosts: [String] = ["localhost", "127.0.0.1", "::1"]) throws {
        directory = try TemporaryDirectory()
        (caFile, certificateFile, keyFile) = try SelfSignedCertificate.write(directory: directory.path, hosts: hosts)
    }

    func server(_ protocols: [String] = ["h2"], maximumVersion: TLSVersion = .tls13) throws -> TLSContext {
        try TLSContext.server(
            certificateFile: certificateFile,
            keyFile: keyFile,
            applicationProtocols: protocols,
            maximumVersion: maximumVersion
        )
    }

    func client(_ protocols: [String] = ["h2"]) throws -> TLSContext {
        try TLSContext.client(caFile: caFile, applicationProtocols: protocols)
    }
}

extension Stream {
    func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { write($0) }
    }
}

/// The process's open descriptors.
func openDescriptorCount() -> Int {
    guard let directory = opendir("/proc/self/fd") else { return -1 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count
}

/// Bytes that change from place to place, so that a lost, repeated or moved block is detected.
func patternedBytes(_ count: Int) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count) { bytes, initializedCount in
        let raw = UnsafeMutableRawBufferPointer(bytes)
        var state: UInt64 = 0x9e37_79b9_7f4a_7c15
        var offset = 0
        while offset + 8 <= count {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            raw.storeBytes(of: state, toByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        while offset < count {
            raw[offset] = UInt8(truncatingIfNeeded: offset)
            offset += 1
        }
        initializedCount = count
    }
}
