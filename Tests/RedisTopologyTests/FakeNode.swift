import Glibc
import Reactor

@testable import Redis

/// A node of a cluster on the caller's own loop. The test decides its replies.
final class FakeNode: ListenerHandler, StreamHandler {
    /// The reply to CLUSTER SLOTS; nil if this node has all slots.
    var slotsReply: String?
    /// The replies to calls, in order. After the last one, each call gets `duplicate`.
    var callReplies: [String] = []
    private(set) var lookUpCount = 0
    private(set) var callCount = 0
    private(set) var askingCount = 0
    private var listener: Listener?
    private var streams: [(stream: Stream, reader: RedisValueReader)] = []
    private let loop: EventLoop

    init(loop: EventLoop) throws {
        self.loop = loop
        listener = try Listener(loop: loop, address: .loopback(port: 0), handler: self)
    }

    deinit {
        listener?.close()
        for entry in streams { entry.stream.close() }
    }

    var port: UInt16 { listener?.port ?? 0 }
    var connectionCount: Int { streams.count }
    var location: String { "127.0.0.1:\(port)" }

    /// The reply to CLUSTER SLOTS of a node that has all slots and does not know its own address.
    var allSlotsReply: String { "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$-1\r\n:\(port)\r\n$2\r\nid\r\n" }

    private func makeReply(_ words: [String]) -> String {
        switch words.first {
        case "CLUSTER":
            lookUpCount += 1
            return slotsReply ?? allSlotsReply
        case "CONFIG":
            return "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
        case "INFO":
            return "$20\r\nredis_version:7.0.1\n\r\n"
        case "SCRIPT":
            return "$40\r\n0123456789012345678901234567890123456789\r\n"
        case "EVALSHA":
            callCount += 1
            return callReplies.isEmpty ? "$9\r\nduplicate\r\n" : callReplies.removeFirst()
        default:
            if words.first == "ASKING" { askingCount += 1 }
            return "+OK\r\n"
        }
    }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        let stream = Stream(accepted: descriptor, loop: loop, handler: self, tls: nil)
        if let reader = RedisValueReader() { streams.append((stream, reader)) }
    }

    func streamConnected(_ stream: Stream) {}
    func streamHasRoom(_ stream: Stream) {}
    func streamClosed(_ stream: Stream, error: StreamError?) { streams.removeAll { $0.stream === stream } }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard let reader = streams.first(where: { $0.stream === stream })?.reader, reader.feed(bytes) else { return }
        while case .value(let command) = reader.next() {
            let text = makeReply(command.elements?.compactMap(\.text) ?? [])
            Array(text.utf8).withUnsafeBytes { stream.write($0) }
        }
    }
}
