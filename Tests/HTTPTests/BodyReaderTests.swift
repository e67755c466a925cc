import Testing

@testable import HTTP

struct BodyReaderTests {
    private struct Body: Equatable {
        var text: String
        /// The number of bytes that the body took, with the lines of its chunks and trailers.
        var bytes: Int
    }

    /// Reads the body at the beginning of the text, which arrives in parts of the given size.
    private static func read(_ text: String, _ length: HTTPBodyReader.Framing, partBytes: Int) throws -> Body {
        var reader = try HTTPBodyReader(length, bytesMax: 100)
        var rest = Array(text.utf8)[...]
        var count = 0
        while !rest.isEmpty, !reader.isComplete {
            count += try reader.read(Array(rest.prefix(partBytes)))
            rest = rest.dropFirst(partBytes)
        }
        #expect(reader.isComplete)
        return Body(text: String(decoding: reader.takeBody(), as: UTF8.self), bytes: count)
    }

    @Test(arguments: [1, 2, 3, 7, 1_000]) func `A body is read in pieces of any size`(partBytes: Int) throws {
        #expect(try Self.read("helloGET", .contentLength(5), partBytes: partBytes) == Body(text: "hello", bytes: 5))
        let chunks = "5\r\nhello\r\nA;name=value\r\n, worldly!\r\n0\r\nTrailer: x\r\n\r\n"
        let body = try Self.read(chunks + "GET", .chunked, partBytes: partBytes)
        #expect(body == Body(text: "hello, worldly!", bytes: chunks.utf8.count))
        #expect(try Self.read("0\r\n\r\n", .chunked, partBytes: partBytes) == Body(text: "", bytes: 5))
    }

    @Test(arguments: [
        ("x\r\n", HTTPFault.malformed), ("\r\n", .malformed), ("-1\r\n", .malformed), ("5\nhello", .malformed),
        ("5\r\nhelloX\r\n", .malformed), ("65\r\n", .bodyTooLarge), ("60\r\n", nil),
        ("ffffffffffffffffffff\r\n", .bodyTooLarge), (String(repeating: "0", count: 2_000), .malformed),
        ("0\r\n" + String(repeating: "a: b\r\n", count: 100), .malformed),
    ])
    func `Malformed input is refused`(_ text: String, _ fault: HTTPFault?) throws {
        var reader = try HTTPBodyReader(.chunked, bytesMax: 100)
        var thrownFault: HTTPFault?
        do throws(HTTPFault) { _ = try reader.read(Array(text.utf8)) } catch { thrownFault = error }
        #expect(thrownFault == fault)
    }

    @Test func `A body that is too long is refused`() throws {
        #expect(throws: HTTPFault.bodyTooLarge) { try HTTPBodyReader(.contentLength(101), bytesMax: 100) }
        var reader = try HTTPBodyReader(.untilConnectionEnds, bytesMax: 100)
        #expect(try reader.read([UInt8](repeating: 0, count: 100)) == 100)
        #expect(throws: HTTPFault.bodyTooLarge) { try reader.read([0]) }
    }
}
