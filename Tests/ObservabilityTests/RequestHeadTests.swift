import Testing

@testable import Observability

struct RequestHeadTests {
    static func parse(_ text: String) -> HTTPRequestHead.Parsed { HTTPRequestHead.parse(Array(text.utf8)) }

    @Test func aProbeIsRead() {
        let text = "GET /livez?verbose=1 HTTP/1.1\r\nHost: worker:9464\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        let head = HTTPRequestHead(method: "GET", path: "/livez", query: "verbose=1", accept: "*/*", keepsAlive: false)
        #expect(Self.parse(text + "GET") == .complete(head, length: text.utf8.count))
        for count in 0..<text.utf8.count {
            #expect(HTTPRequestHead.parse(Array(text.utf8.prefix(count))) == .incomplete)
        }
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400), ("G\u{7}T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400), ("\r\n\r\n", 400), ("\r\n\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\u{0}b\r\n\r\n", 400), ("GET /\n HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ])
    func whatIsWrongIsRefused(_ text: String, _ status: Int) {
        #expect(Self.parse(text) == .refused(status: status))
    }

    @Test func http10NeedsNoHostAndCloses() {
        let head = HTTPRequestHead(method: "GET", path: "/metrics", keepsAlive: false)
        #expect(Self.parse("GET /metrics HTTP/1.0\r\n\r\n") == .complete(head, length: 25))
        let zero = HTTPRequestHead(method: "GET", path: "/", keepsAlive: true)
        #expect(Self.parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n") == .complete(zero, length: 46))
    }

    @Test func whatIsTooLongIsRefusedBeforeItsEnd() {
        let long = "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: HTTPRequestHead.bytesMax)
        #expect(Self.parse(long) == .refused(status: 431))
        #expect(Self.parse(long + "\r\n\r\n") == .refused(status: 431))
        let many = String(repeating: "X: y\r\n", count: HTTPRequestHead.fieldsMax)
        #expect(Self.parse("GET / HTTP/1.1\r\nHost: a\r\n\(many)\r\n") == .refused(status: 431))
    }

    @Test func noBytesBreakIt() {
        var generator = SystemRandomNumberGenerator()
        let text = Array("GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: c\r\n\r\n".utf8)
        for _ in 0..<20_000 {
            var bytes = text
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            if case .complete(_, let length) = HTTPRequestHead.parse(bytes) { #expect(length <= bytes.count) }
        }
    }
}
