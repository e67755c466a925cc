import LiveActivity
import Reactor

@testable import ActivityStore
@testable import Redis

/// A Redis server on the lane's own loop. It completes the handshake and replies to no script call, unless the test
/// sets other replies in ``makeReply``.
final class FakeRedis: ListenerHandler, StreamHandler {
    /// Gets the first word of a command, and returns the reply; nil: the command gets no reply.
    var makeReply: (String) -> String? = { _ in nil }
    /// Whether the server keeps its replies, so that ``sendNextByte()`` sends them byte by byte.
    var sendsByteByByte = false
    private(set) var connectionCount = 0
    private let loop: EventLoop
    private var listener: Listener?
    private var streams: [(stream: Stream, reader: ReplyReader, unsentOutput: [UInt8])] = []

    static let defaultReply: @Sendable (String) -> String? = { word in
        switch word {
        case "CONFIG": "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
        case "INFO": "$20\r\nredis_version:7.0.1\n\r\n"
        case "SCRIPT": "$40\r\n0123456789012345678901234567890123456789\r\n"
        case "EVALSHA": nil
        default: "+OK\r\n"
        }
    }

    init(loop: EventLoop) throws {
        self.loop = loop
        listener = try Listener(loop: loop, address: .loopback(port: 0), handler: self)
        makeReply = Self.defaultReply
    }

    deinit {
        listener?.close()
        for entry in streams { entry.stream.close() }
    }

    var url: String { "redis://127.0.0.1:\(listener?.port ?? 0)" }

    func send(_ text: String) {
        for entry in streams where entry.stream.isOpen { Array(text.utf8).withUnsafeBytes { entry.stream.write($0) } }
    }

    var unsentByteCount: Int { streams.reduce(0) { $0 + $1.unsentOutput.count } }

    /// Sends one waiting byte on each connection.
    func sendNextByte() {
        for index in streams.indices where !streams[index].unsentOutput.isEmpty && streams[index].stream.isOpen {
            [streams[index].unsentOutput.removeFirst()].withUnsafeBytes { streams[index].stream.write($0) }
        }
    }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        connectionCount += 1
        let stream = Stream(accepted: descriptor, loop: loop, handler: self, tls: nil)
        if let reader = ReplyReader() { streams.append((stream, reader, [])) }
    }

    func streamConnected(_ stream: Stream) {}
    func streamHasRoom(_ stream: Stream) {}
    func streamClosed(_ stream: Stream, error: StreamError?) { streams.removeAll { $0.stream === stream } }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard let index = streams.firstIndex(where: { $0.stream === stream }) else { return }
        let reader = streams[index].reader
        _ = reader.feed(bytes)
        while case .reply(let command) = reader.next(), case .array(let count) = command.kind, count > 0 {
            guard let reply = makeReply(String(decoding: reader.element(0).bytes, as: UTF8.self)) else { continue }
            if sendsByteByByte {
                streams[index].unsentOutput += reply.utf8
            } else {
                Array(reply.utf8).withUnsafeBytes { stream.write($0) }
            }
        }
    }
}
