import Reactor
import Synchronization
import Testbed
import Testing

@testable import HTTP

/// Tests the server with requests over real sockets.
@Suite(.timeLimit(.minutes(5)))
struct ServerTests {
    private static let bodyLimits = {
        var limits = HTTPServerLimits()
        limits.bodyBytesMax = 4 << 20
        limits.totalBodyBytesMax = 4 << 20
        return limits
    }()
    private static let echoResponder: TestServer.Responder = {
        HTTPResponse(status: 200, contentType: "x/y", body: $0.body)
    }

    @Test func `A connection serves many requests, also simultaneously`() async throws {
        try await TestServer.run { server in
            let client = try server.connect()
            for number in 0..<20 { #expect(try client.get("/\(number)").body == "/\(number)") }
            client.send((0..<3).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            for number in 0..<3 { #expect(try client.readResponse().body == "/\(number)") }
            // Sends another request byte by byte.
            for byte in "GET /bytes HTTP/1.1\r\nHost: a\r\n\r\n" { client.send(String(byte)) }
            #expect(try client.readResponse().body == "/bytes")
        }
    }

    @Test func `Bodies of every form are read`() async throws {
        try await TestServer.run(Self.bodyLimits, responder: Self.echoResponder) { server in
            let client = try server.connect()
            let countedRequest = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
            let chunks = "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
            let chunkedRequest = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
            client.send(countedRequest + chunkedRequest + countedRequest)
            for _ in 0..<3 { #expect(try client.readResponse().body == "hello") }
            for byte in chunkedRequest { client.send(String(byte)) }
            #expect(try client.readResponse().body == "hello")
            let largeBody = String(repeating: "0123456789abcdef", count: 250_000)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(largeBody.utf8.count)\r\n\r\n\(largeBody)")
            #expect(try client.readResponse().body == largeBody)
        }
    }

    /// With `Expect: 100-continue`, a client such as curl sends a large body only when the server asks for it.
    @Test func `The server requests a body that the client announced`() async throws {
        try await TestServer.run(Self.bodyLimits, responder: Self.echoResponder) { server in
            let client = try server.connect()
            client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            #expect(try client.read(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            client.send("hello")
            #expect(try client.readResponse().body == "hello")
            // The server does not ask for a body that is too large.
            client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
            #expect(client.readToEnd().hasPrefix("HTTP/1.1 413 "))
        }
    }

    @Test func `The response to HEAD has no body`() async throws {
        try await TestServer.run { server in
            let client = try server.connect()
            client.send("HEAD /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let response = client.readToEnd()
            #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n") && response.hasSuffix("\r\n\r\n"))
            #expect(response.contains("Content-Length: 5\r\n"))
        }
    }

    @Test(arguments: [
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 413),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("\u{16}\u{3}\u{1}\r\n\r\n", 400), ("GET / HTTP/1.1\r\nX: " + String(repeating: "x", count: 9_000), 431),
        ("GET / HTTP/1.1\r\n" + String(repeating: "X: y\r\n", count: 65) + "\r\n", 431),
        (String(repeating: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", count: 40), 400),
    ])
    func `A refused request gets a response, and its connection ends`(_ request: String, _ status: Int) async throws {
        try await TestServer.run { server in
            let client = try server.connect()
            client.send(request)
            #expect(client.readToEnd().contains("HTTP/1.1 \(status) "))
            #expect(try server.connect().get("/").status == 200)
        }
    }

    /// Another thread responds later. The next requests on the connection wait for this response.
    @Test func `A response may come later`() async throws {
        let exchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            exchanges.send($0)
            return nil
        }
        try await TestServer.run(responder: responder) { server in
            let client = try server.connect()
            client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            for number in 1...2 {
                let exchange = try await exchanges.next()
                #expect(exchange.head.path == "/\(number)")
                exchange.respond(HTTPResponse(status: 200, text: "late \(number)"))
                exchange.respond(HTTPResponse(status: 200, text: "never"))
                #expect(try client.readResponse().body == "late \(number)")
            }
            // The exchange is released without a response.
            client.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try await exchanges.next()
            #expect(try client.readResponse().status == 500)
            // A response to a client that has closed is dropped.
            let disconnectedClient = Mutex<RawHTTPClient?>(try server.connect())
            disconnectedClient.withLock { $0?.send("GET /4 HTTP/1.1\r\nHost: a\r\n\r\n") }
            let exchange = try await exchanges.next()
            disconnectedClient.withLock { $0 = nil }
            exchange.respond(.statusOnly(200))
        }
    }

    /// The response is larger than the output that may wait in a connection (`Stream.outputBytesMax`). One client reads
    /// it all. The other reads nothing, and the server closes its connection after the idle timeout.
    @Test func `A large response is sent in parts`() async throws {
        let largeBody = [UInt8](repeating: UInt8(ascii: "x"), count: 40 << 20)
        var limits = HTTPServerLimits()
        limits.idleTimeoutMilliseconds = 2_000
        let requests = AsyncQueue<Void>()
        let responder: TestServer.Responder = { _ in
            requests.send(())
            return HTTPResponse(status: 200, contentType: "x/y", body: largeBody)
        }
        try await TestServer.run(limits, responder: responder) { server in
            let client = try server.connect()
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(client.readToEnd().utf8.count > largeBody.count)
            try await requests.next()
            let idleClient = try server.connect(receiveBufferBytes: 4_096)
            idleClient.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            try await requests.next()
            try await server.awaitConnections(0)
            #expect(idleClient.readToEnd().utf8.count < largeBody.count)
        }
    }
}
