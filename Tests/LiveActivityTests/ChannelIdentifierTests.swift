import LiveActivity
import Testing

@Suite struct ChannelIdentifierTests {
    @Test(arguments: ["dHN0LXNyY2gtY2hubA==", "AAAA", "ab+/", "abc=", "ab==", String(repeating: "x", count: 64)])
    func `An identifier is kept byte for byte`(text: String) throws {
        let identifier = try #require(ChannelIdentifier(text))
        #expect(identifier.description == text && identifier.count == text.utf8.count)
        #expect(identifier == ChannelIdentifier(text))
        #expect(Set([identifier, try #require(ChannelIdentifier(text))]).count == 1)
        identifier.withBytes { #expect(Array($0) == Array(text.utf8)) }
    }

    @Test(arguments: [
        "", "a", "abc", "a===", "====", "=abc", "ab=c", "ab-_", "ab c", "abc\n", "ab==abcd", "abcé", "abc\0",
        String(repeating: "x", count: 68),
    ])
    func `An invalid text is no identifier`(text: String) {
        #expect(ChannelIdentifier(text) == nil)
    }

    @Test func `Identifiers that differ in any byte are different`() throws {
        let identifier = try #require(ChannelIdentifier("abcdefgh"))
        for other in ["abcdefgH", "Abcdefgh", "abcd", "abcdefghabcd"] {
            #expect(identifier != ChannelIdentifier(other))
        }
    }

    @Test func `Storage is Apple's number`() {
        #expect(ChannelStoragePolicy.none.rawValue == 0 && ChannelStoragePolicy.newest.rawValue == 1)
        #expect(ChannelStoragePolicy.allCases.map { String(describing: $0.name) } == ["none", "newest"])
    }
}
