import Foundation
import Reactor
import Synchronization
import Testbed
import Testing

@testable import HTTP

/// Clients reach the limits on connections, waiting requests, times and bodies, over real sockets. ``ServerTests``
/// tests the limits of a head, ``StreamTests`` those of streams.
@Suite(.timeLimit(.minutes(5)))
struct LimitTests {
    private static func limits(_ change: (inout HTTPServerLimits) -> Void) -> HTTPServerLimits {
        var limits = HTTPServerLimits()
        change(&limits)
        return limits
    }

    @Test func `Many idle clients do not block a probe`() async throws {
        let limits = Self.limits { $0.connectionsMax = 8 }
        try await TestServer.run(limits) { server in
            let idleClients = try (0..<20).map { _ in try server.connect() }
            #expect(try server.connect().get("/").status == 200)
            // The server has closed the oldest idle connection to make room.
            #expect(idleClients[0].readToEnd() == "")
            #expect(server.server.usage.connectionCount <= 8)
        }
    }

    /// Every connection of the server has a request that waits for its response. The server closes none of them to make
    /// room, so it refuses a further client.
    @Test func `A request that waits keeps its connection`() async throws {
        let exchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            exchanges.send($0)
            return nil
        }
        try await TestServer.run(Self.limits { $0.connectionsMax = 2 }, responder: responder) { server in
            let clients = try (0..<2).map { _ in try server.connect() }
            var waitingExchanges: [HTTPExchange] = []
            for client in clients {
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                waitingExchanges.append(try await exchanges.next())
            }
            #expect(try server.connect().readToEnd() == "")
            for exchange in waitingExchanges { exchange.respond(.statusOnly(200)) }
            for client in clients { #expect(try client.readResponse().status == 200) }
        }
    }

    @Test func `The number of waiting requests is limited`() async throws {
        let exchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            exchanges.send($0)
            return nil
        }
        try await TestServer.run(Self.limits { $0.exchangesMax = 1 }, responder: responder) { server in
            var disconnectedClient: RawHTTPClient? = try server.connect()
            disconnectedClient?.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = try await exchanges.next()
            // The client has closed its connection. Its request still counts, because the handler keeps the exchange.
            disconnectedClient = nil
            #expect(try server.connect().get("/").status == 503)
            exchange.respond(.statusOnly(200))
        }
    }

    @Test(arguments: [
        ("", ""), ("GET / HTTP/1.1\r\nX", "HTTP/1.1 408 "),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", "HTTP/1.1 408 "),
    ])
    func `A slow request ends its connection`(_ request: String, _ response: String) async throws {
        let limits = Self.limits {
            ($0.headTimeoutMilliseconds, $0.bodyTimeoutMilliseconds) = (300, 300)
            ($0.bodyBytesMax, $0.totalBodyBytesMax) = (10, 10)
        }
        try await TestServer.run(limits) { server in
            let client = try server.connect()
            client.send(request)
            #expect(client.readToEnd().hasPrefix(response))
        }
    }

    /// Each byte comes in time, but the whole head does not.
    @Test func `A head that arrives byte by byte ends in time`() async throws {
        try await TestServer.run(Self.limits { $0.headTimeoutMilliseconds = 300 }) { server in
            let client = try server.connect()
            client.send("GET / HTTP/1.1\r\nX: ")
            try await server.awaitConnections(1)
            var sentBytes = 0
            try await eventuallyInTask("the end of the connection", every: .milliseconds(20)) {
                client.send("x")
                sentBytes += 1
                return server.server.usage.connectionCount == 0
            }
            #expect(sentBytes > 2)
        }
    }

    @Test func `An idle connection is closed`() async throws {
        try await TestServer.run(Self.limits { $0.idleTimeoutMilliseconds = 300 }) { server in
            let client = try server.connect()
            #expect(try client.get("/").status == 200)
            #expect(client.readToEnd() == "")
        }
    }

    /// Whether the kernel's buffer for sending is at most 4 MiB, as it usually is.
    private static var hasUsualSendBuffer: Bool {
        let limits = (try? String(contentsOfFile: "/proc/sys/net/ipv4/tcp_wmem", encoding: .utf8)) ?? ""
        return limits.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) }.map { $0 <= 4 << 20 } ?? false
    }

    /// The kernel's buffer of a connection takes about three megabytes. While the client reads them slowly, the socket
    /// takes no more bytes. The server already waits for the request after the smaller body, whose end is still in the
    /// buffer of the server's stream. A larger buffer could take the whole bodies, and the test would prove nothing.
    @Test(.enabled(if: hasUsualSendBuffer), arguments: [820, 2_000])
    func `A client that reads slowly gets its whole response`(lineCount: Int) async throws {
        let line = [UInt8](repeating: UInt8(ascii: "x"), count: 4_095) + [UInt8(ascii: "\n")]
        let body = (0..<lineCount).flatMap { _ in line }
        let responder: TestServer.Responder = { _ in HTTPResponse(status: 200, contentType: "text/plain", body: body) }
        try await TestServer.run(Self.limits { $0.idleTimeoutMilliseconds = 3_000 }, responder: responder) { server in
            let client = try server.connect(receiveBufferBytes: 4_096)
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try client.read(until: "\r\n\r\n")
            let slowLineCount = 60
            // Read in a thread of its own: on a busy machine, a task may not run for seconds, and the server would
            // rightly close the connection.
            let remainingBytes = try await withCheckedThrowingContinuation { continuation in
                Thread.detachNewThread {
                    let result = Result {
                        for _ in 0..<slowLineCount {
                            _ = try client.read(until: "\n")
                            usleep(100_000)
                        }
                        return client.readToEnd().utf8.count
                    }
                    continuation.resume(with: result)
                }
            }
            #expect(remainingBytes == (lineCount - slowLineCount) * line.count)
        }
    }

    @Test func `The server does not wait for a slow handler`() async throws {
        let keptExchange = Mutex<HTTPExchange?>(nil)
        let responder: TestServer.Responder = { exchange in
            keptExchange.withLock { $0 = exchange }
            return nil
        }
        try await TestServer.run(Self.limits { $0.responseTimeoutMilliseconds = 300 }, responder: responder) { server in
            let client = try server.connect()
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(client.readToEnd().hasPrefix("HTTP/1.1 503 "))
            keptExchange.withLock { exchange in
                exchange?.respond(.statusOnly(200))
                exchange = nil
            }
        }
    }

    /// A body in chunks has no announced length. It is refused when it exceeds the limit.
    @Test func `The size of a body is limited`() async throws {
        let limits = Self.limits { ($0.bodyBytesMax, $0.totalBodyBytesMax) = (1_000, 1_000) }
        try await TestServer.run(limits) { server in
            let client = try server.connect()
            client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n")
            client.send(String(repeating: "x", count: 1_000) + "\r\n1\r\n")
            #expect(client.readToEnd().hasPrefix("HTTP/1.1 413 "))
        }
    }

    /// The bodies of several clients are each small enough, but together too large.
    @Test func `The size of all bodies together is limited`() async throws {
        let exchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            exchanges.send($0)
            return nil
        }
        let limits = Self.limits { ($0.bodyBytesMax, $0.totalBodyBytesMax) = (1_000, 1_500) }
        try await TestServer.run(limits, responder: responder) { server in
            let putRequest =
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 1_000)
            let firstClient = try server.connect()
            firstClient.send(putRequest)
            var exchange: HTTPExchange? = try await exchanges.next()
            #expect(server.server.usage.bodyBytes == 1_000)
            let secondClient = try server.connect()
            secondClient.send(putRequest)
            #expect(secondClient.readToEnd().hasPrefix("HTTP/1.1 503 "))
            exchange?.respond(.statusOnly(200))
            exchange = nil
            #expect(try firstClient.readResponse().status == 200)
            firstClient.send(putRequest)
            exchange = try await exchanges.next()
            #expect(exchange?.body.count == 1_000)
            exchange = nil
            #expect(try firstClient.readResponse().status == 500)
        }
    }

    /// A request waits for a response (long poll) while the server stops. A response in time is still sent;
    /// otherwise the connection closes.
    @Test(arguments: [true, false]) func `The server stops during a long poll`(hasResponse: Bool) async throws {
        let exchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            exchanges.send($0)
            return nil
        }
        let beganAt = ContinuousClock.now
        try await TestServer.run(responder: responder) { server in
            let (client, idleClient) = (try server.connect(), try server.connect())
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let exchange = try await exchanges.next()
            server.server.requestStop()
            if hasResponse { exchange.respond(HTTPResponse(status: 200, text: "late")) }
            let response = client.readToEnd()
            #expect(
                response.hasSuffix("Connection: close\r\n\r\nlate") == hasResponse && response.isEmpty == !hasResponse
            )
            #expect(idleClient.readToEnd() == "")
        }
        #expect(ContinuousClock.now - beganAt < .seconds(60))
    }
}
