import Reactor
import Synchronization
import Testbed
import Testing

@testable import HTTP

/// Responses that grow, such as Server-Sent Events.
@Suite(.timeLimit(.minutes(5)))
struct StreamTests {
    private static let eventStreamHead = HTTPResponse(
        status: 200,
        contentType: "text/event-stream",
        text: ": begin\n\n"
    )

    private static func limits(_ change: (inout HTTPServerLimits) -> Void = { _ in }) -> HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.streamsMax = 1
        change(&limits)
        return limits
    }

    /// Runs a server that responds to each request with a stream, and gives the streams to the test.
    private static func run(
        _ limits: HTTPServerLimits = limits(),
        _ body: @Sendable @escaping (TestServer, AsyncQueue<HTTPResponseStream>) async throws -> Void
    ) async throws {
        let streams = AsyncQueue<HTTPResponseStream>()
        let responder: TestServer.Responder = { exchange in
            guard let stream = exchange.openStream(eventStreamHead) else { return .statusOnly(503) }
            streams.send(stream)
            return nil
        }
        try await TestServer.run(limits, responder: responder) { try await body($0, streams) }
    }

    @Test func `Appended data arrives in chunks`() async throws {
        try await Self.run { server, streams in
            let client = try server.connect()
            client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let stream = try await streams.next()
            let head = try client.read(until: "\r\n\r\n")
            #expect(head.hasPrefix("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"))
            #expect(head.contains("\r\nTransfer-Encoding: chunked\r\n"))
            #expect(try client.read(until: ": begin\n\n\r\n") == "9\r\n: begin\n\n\r\n")
            for number in 0..<20 {
                #expect(stream.append(Array("data: \(number)\n\n".utf8)) == .appended)
                #expect(try client.read(until: "\n\n\r\n").hasSuffix("data: \(number)\n\n\r\n"))
            }
            stream.append(Array("data: last\n\n".utf8))
            stream.finish()
            #expect(client.readToEnd().hasSuffix("data: last\n\n\r\n0\r\n\r\n"))
            #expect(stream.append([0]) == .ended)
            try await server.awaitConnections(0)
            #expect(stream.hasEnded)
        }
    }

    @Test func `A client of the old HTTP version reads to the end`() async throws {
        try await Self.run { server, streams in
            let client = try server.connect()
            client.send("GET /events HTTP/1.0\r\n\r\n")
            let stream = try await streams.next()
            stream.append(Array("data: 1\n\n".utf8))
            stream.finish()
            let response = client.readToEnd()
            #expect(response.hasSuffix("\r\n\r\n: begin\n\ndata: 1\n\n") && !response.contains("chunked"))
        }
    }

    /// The server allows one stream. After a client has closed its connection, another client can get a stream.
    @Test func `The server notices that a client has left`() async throws {
        try await Self.run { server, streams in
            var client: RawHTTPClient? = try server.connect()
            client?.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let stream = try await streams.next()
            #expect(try server.connect().get("/events").status == 503)
            let ends = AsyncQueue<Int>()
            stream.onEnd { ends.send(1) }
            client = nil
            #expect(try await ends.next() == 1)
            #expect(stream.hasEnded && stream.append([0]) == .ended)
            stream.onEnd { ends.send(2) }
            #expect(try await ends.next() == 2)
            let otherClient = try server.connect()
            otherClient.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            try await streams.next().finish()
            #expect(otherClient.readToEnd().hasSuffix(": begin\n\n\r\n0\r\n\r\n"))
        }
    }

    /// A client reads nothing. First the server skips events, then it closes the connection.
    @Test func `A slow reader misses events, and is then disconnected`() async throws {
        let limits = Self.limits { ($0.streamBytesMax, $0.idleTimeoutMilliseconds) = (100_000, 500) }
        try await Self.run(limits) { server, streams in
            let client = try server.connect(receiveBufferBytes: 4_096)
            client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let stream = try await streams.next()
            #expect(stream.append([UInt8](repeating: 0, count: 100_001)) == .skipped)
            var (takenCount, skippedCount) = (0, 0)
            let event = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
            let deadline = ContinuousClock.now + eventWaitMax
            while true {
                guard ContinuousClock.now < deadline else { throw Timeout(awaiting: "the end of the stream") }
                switch stream.append(event) {
                case .appended: takenCount += 1
                case .skipped:
                    skippedCount += 1
                    // The stream is full until the socket takes some bytes. No event says so, so the test tries again.
                    try await Task.sleep(for: .milliseconds(1))
                case .ended:
                    #expect(takenCount > 10 && skippedCount > 0)
                    return #expect(client.readToEnd().utf8.count < (takenCount + skippedCount) * 10_000)
                }
            }
        }
    }

    /// A stream's connection stays open, even if no event is sent for longer than the idle timeout.
    @Test func `A quiet stream stays open`() async throws {
        try await Self.run(Self.limits { $0.idleTimeoutMilliseconds = 300 }) { server, streams in
            let client = try server.connect()
            client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let stream = try await streams.next()
            // Meanwhile an ordinary connection is idle for too long, and is closed.
            let idleClient = try server.connect()
            #expect(try idleClient.get("/").status == 503)
            _ = idleClient.readToEnd()
            #expect(stream.append(Array("data: 1\n\n".utf8)) == .appended)
            stream.finish()
            #expect(client.readToEnd().hasSuffix("data: 1\n\n\r\n0\r\n\r\n"))
        }
    }

    @Test func `A stop of the server ends its streams`() async throws {
        try await Self.run { server, streams in
            let client = try server.connect()
            client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            let stream = try await streams.next()
            _ = try client.read(until: ": begin\n\n")
            let ends = AsyncQueue<Int>()
            stream.onEnd { ends.send(1) }
            server.server.requestStop()
            _ = try await ends.next()
            #expect(stream.append([0]) == .ended)
            #expect(client.readToEnd() == "\r\n")
        }
    }

    /// A handler's thread has counted its new stream. But before the thread posts the stream, the server ends.
    @Test func `A stream that is posted after the server's end has ended`() throws {
        let inbox = try HTTPServerInbox(limits: Self.limits())
        #expect(inbox.reserveStream())
        let stream = HTTPResponseStream(initialResponse: Self.eventStreamHead, inbox: inbox, connectionNumber: 1)
        inbox.close()
        inbox.post(.streamBegan(stream, connectionNumber: 1))
        #expect(stream.hasEnded && stream.append([0]) == .ended)
        #expect(inbox.usage == HTTPServerUsage())
    }
}
