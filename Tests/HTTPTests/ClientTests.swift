import Glibc
import Reactor
import Testbed
import Testing

@testable import HTTP

/// Some tests connect the client to our server. Others connect it to a peer that sends one fixed text, which need not
/// be HTTP.
@Suite(.timeLimit(.minutes(5)))
struct ClientTests {
    private static func makeClient(_ port: UInt16, _ path: String = "/") -> HTTPClient {
        HTTPClient(address: HTTPAddress(host: "127.0.0.1", port: port, path: path), timeoutMilliseconds: 60_000)
    }

    @Test func `Bodies of any size are sent and received`() async throws {
        var limits = HTTPServerLimits()
        limits.bodyBytesMax = 32 << 20
        limits.totalBodyBytesMax = 32 << 20
        let responder: TestServer.Responder = { exchange in
            HTTPResponse(status: exchange.head.method == "PUT" ? 200 : 404, contentType: "x/y", body: exchange.body)
        }
        try await TestServer.run(limits, responder: responder) { server in
            for bodyBytes in [0, 1, 100_000, 32 << 20] {
                let body = (0..<bodyBytes).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                var client = Self.makeClient(server.port)
                client.responseBodyBytesMax = 32 << 20
                let response = try client.request("PUT", body: body)
                #expect(response.status == 200 && response.body == body)
            }
            let response = try Self.makeClient(server.port).request()
            #expect(response.status == 404)
        }
    }

    @Test func `Chunked responses are read`() async throws {
        var limits = HTTPServerLimits()
        limits.streamsMax = 1
        let responder: TestServer.Responder = { exchange in
            let stream = exchange.openStream(HTTPResponse(status: 200, text: "1"))
            stream?.append([UInt8(ascii: "2")])
            stream?.finish()
            return nil
        }
        try await TestServer.run(limits, responder: responder) { server in
            let response = try Self.makeClient(server.port).request()
            #expect(response.body == Array("12".utf8))
        }
    }

    @Test func `The size of a response is limited`() async throws {
        try await TestServer.run { server in
            var client = Self.makeClient(server.port, "/12345")
            client.responseBodyBytesMax = 5
            #expect(throws: HTTPClientError.self) { try client.request() }
            client.responseBodyBytesMax = 6
            let wholeResponse = try client.request()
            #expect(wholeResponse.body.count == 6)
            client.responseBodyBytesMax = 0
            client.readsOnlyStatus = true
            let status = try client.request()
            #expect(status == HTTPClient.Response(status: 200, body: []))
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200), ("HTTP/1.1 404 Error\r\n\r\n{}", 404),
        ("HTTP/1.0 200 OK\r\n\r\n{}", 200),
        ("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\n\r\n{}", 201),
    ])
    func `Responses of other servers are read`(_ text: String, _ status: Int) async throws {
        let response = try await ScriptedPeer.serve(text) { try Self.makeClient($0).request() }
        #expect(response.status == status && response.body == Array("{}".utf8))
    }

    @Test(arguments: [
        ("", HTTPClientError.Cause.connectionLost), ("HTTP/1.1 200 OK\r\n", .connectionLost),
        ("SSH-2.0-OpenSSH\r\n\r\n", .responseMalformed),
        ("HTTP/1.1 abc\r\n\r\n", .responseMalformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", .connectionLost),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", .connectionLost),
        ("220 mail", .responseMalformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", .responseTooLarge),
    ])
    func `The error says why a response is invalid`(_ text: String, _ cause: HTTPClientError.Cause) async throws {
        let error = await #expect(throws: HTTPClientError.self) {
            try await ScriptedPeer.serve(text) { try Self.makeClient($0).request() }
        }
        #expect(error?.cause == cause)
    }

    @Test func `The error says that nobody listens`() async throws {
        let port = try Listener.findUnusedLoopbackPort()
        let error = #expect(throws: HTTPClientError.self) { try Self.makeClient(port).request() }
        #expect(error?.cause == .connectFailed)
        #expect(error?.description == "no server responds at 127.0.0.1:\(port): Connection refused")
    }

    @Test(arguments: [true, false]) func `A request ends in time`(isCancelled: Bool) async throws {
        let keptExchanges = AsyncQueue<HTTPExchange>()
        let responder: TestServer.Responder = {
            keptExchanges.send($0)
            return nil
        }
        let cancellationWakeup = try Wakeup()
        try await TestServer.run(responder: responder) { server in
            var client = Self.makeClient(server.port)
            if isCancelled { cancellationWakeup.signal() } else { client.timeoutMilliseconds = 200 }
            client.cancellationWakeup = cancellationWakeup
            let error = #expect(throws: HTTPClientError.self) { try client.request() }
            #expect(error?.cause == (isCancelled ? .cancelled : .timedOut))
            // An interruption may come before the client sends its request, so the server may get no request.
            if !isCancelled { try await keptExchanges.next().respond(.statusOnly(200)) }
        }
    }

    @Test(arguments: [
        ("http://127.0.0.1:9464/readyz", "127.0.0.1", 9_464, "/readyz"), ("http://127.0.0.1", "127.0.0.1", 80, "/"),
        ("http://push-causeway.push.svc:9464/readyz", "push-causeway.push.svc", 9_464, "/readyz"),
        ("http://[::1]:8080/a?b=c#d", "::1", 8_080, "/a?b=c"), ("HTTP://127.0.0.1?x", "127.0.0.1", 80, "/?x"),
    ])
    func `Addresses of HTTP servers are read`(url: String, host: String, port: UInt16, path: String) {
        #expect(HTTPAddress(url: url) == HTTPAddress(host: host, port: port, path: path))
    }

    @Test(arguments: [
        "https://127.0.0.1/", "127.0.0.1:80", "http://:80/", "http://[::zz]:80/", "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/", "http://127.0.0.1:+80/",
        "http://::1/", "http://a@127.0.0.1/", "http://127.0.0.1/a b", "", "http://",
    ])
    func `An address that is not of an HTTP server is refused`(url: String) {
        #expect(HTTPAddress(url: url) == nil)
    }
}

/// A listener that sends one text to its only client, whatever the client asks, and closes.
private enum ScriptedPeer {
    static func serve<Value: Sendable>(
        _ text: String,
        _ body: @Sendable @escaping (UInt16) throws -> Value
    ) async throws -> Value {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        let address = Reactor.SocketAddress.loopback(port: try Listener.findUnusedLoopbackPort())
        try #require(address.withSockaddr { bind(descriptor, $0, $1) } == 0 && listen(descriptor, 1) == 0)
        async let value = onOwnThread { try body(address.port) }
        try await onOwnThread {
            let connection = accept(descriptor, nil, nil)
            var request = [UInt8](repeating: 0, count: 4_096)
            _ = recv(connection, &request, request.count, 0)
            _ = Array(text.utf8).withUnsafeBytes { send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            close(connection)
        }
        return try await value
    }
}
