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
}
