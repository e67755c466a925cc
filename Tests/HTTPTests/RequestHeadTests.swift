import Testing

@testable import HTTP

struct RequestHeadTests {
    static func parse(_ text: String) throws(HTTPFault) -> (head: HTTPRequestHead, byteCount: Int)? {
        try HTTPRequestHead.parse(Array(text.utf8))
    }

    @Test func `A probe is read`() throws {
        let text = "GET /livez?verbose=1 HTTP/1.1\r\nHost: worker:9464\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        let (head, byteCount) = try #require(try Self.parse(text + "GET"))
        #expect(byteCount == text.utf8.count)
        #expect(head.method == "GET" && head.path == "/livez" && head.query["verbose"] == "1")
        #expect(head.fields["accept"] == "*/*" && head.fields["cookie"] == nil)
        #expect(!head.keepsAlive && head.bodyFraming == nil)
        for count in 0..<text.utf8.count {
            #expect(try HTTPRequestHead.parse(Array(text.utf8.prefix(count))) == nil)
        }
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400), ("G\u{7}T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400), ("\r\n\r\n", 400), ("\r\n\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\u{0}b\r\n\r\n", 400), ("GET /\n HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ])
    func `Malformed input is refused`(_ text: String, _ status: Int) throws {
        let fault = #expect(throws: HTTPFault.self) { try Self.parse(text) }
        #expect(fault?.refusalStatus == status)
    }

    @Test(arguments: [
        ("Content-Length: 5", HTTPBodyReader.Framing.contentLength(5)), ("Content-Length: 0", .contentLength(0)),
        ("Content-Length: 99999999999999999999", .contentLength(.max)), ("Transfer-Encoding: Chunked", .chunked),
        ("X: y", nil),
    ])
    func `The body's length is read`(_ field: String, _ length: HTTPBodyReader.Framing?) throws {
        let (head, _) = try #require(try Self.parse("PUT / HTTP/1.1\r\nHost: a\r\n\(field)\r\n\r\n"))
        #expect(head.bodyFraming == length && head.keepsAlive)
    }

    @Test func `A request of the old HTTP version needs no host, and its connection closes`() throws {
        let (head, byteCount) = try #require(try Self.parse("GET /metrics HTTP/1.0\r\n\r\n"))
        #expect(byteCount == 25 && !head.keepsAlive && !head.isHTTP11)
    }

    @Test func `Percent-encoding is decoded`() throws {
        let (head, _) = try #require(
            try Self.parse("GET /a%20b?name=%C3%A9&flag&sum=1%2B1=2&name=other HTTP/1.1\r\nHost: a\r\n\r\n")
        )
        #expect(head.path == "/a b")
        #expect(head.query["name"] == "\u{e9}" && head.query["flag"] == "" && head.query["sum"] == "1+1=2")
        #expect(head.query["none"] == nil)
    }

    @Test func `A head that is too long is refused before its end`() throws {
        let longHead = "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: HTTPHead.bytesMax)
        #expect(throws: HTTPFault.headTooLarge) { try Self.parse(longHead) }
        #expect(throws: HTTPFault.headTooLarge) { try Self.parse(longHead + "\r\n\r\n") }
        let manyFields = String(repeating: "X: y\r\n", count: HTTPHead.fieldsMax)
        #expect(throws: HTTPFault.headTooLarge) { try Self.parse("GET / HTTP/1.1\r\nHost: a\r\n\(manyFields)\r\n") }
    }

    @Test func `The parser survives any bytes`() {
        var generator = SystemRandomNumberGenerator()
        let text = Array("GET /a?b=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n".utf8)
        for _ in 0..<20_000 {
            var bytes = text
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            if let byteCount = try? HTTPRequestHead.parse(bytes)?.byteCount { #expect(byteCount <= bytes.count) }
        }
    }
}
