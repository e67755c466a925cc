import Testbed
import Testing

@testable import CausewayCommandLine

@Suite("The page client's answers", .ownThread)
struct PageClientTests {
    @Test func anAnswer() throws {
        let answer = try #require(PageClient.parse(Array("HTTP/1.1 404 Error\r\ncontent-length: 2\r\n\r\n{}".utf8)))
        #expect(answer.status == 404 && answer.body == Array("{}".utf8))
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"])
    func whatIsNoAnswer(text: String) {
        #expect(PageClient.parse(Array(text.utf8)) == nil)
    }

    @Test(arguments: [
        ("http://127.0.0.1:9464/readyz", "127.0.0.1", 9464, "/readyz"), ("http://[::1]:80", "::1", 80, "/"),
        (
            "http://push-causeway.push.svc:9464/statusz?format=json", "push-causeway.push.svc", 9464,
            "/statusz?format=json"
        ),
    ])
    func anAddress(url: String, host: String, port: UInt16, path: String) {
        #expect(PageAddress(url: url) == PageAddress(host: host, port: port, path: path))
    }

    @Test(arguments: [
        "https://localhost:1/", "http://:80/", "http://localhost:0/", "http://[::zz]:80/", "localhost:9464/readyz", "",
    ])
    func whatIsNoAddress(url: String) {
        #expect(PageAddress(url: url) == nil)
    }
}
