import Numbers
import Testing

@Suite struct HexadecimalTests {
    @Test func `Unique identifiers are written in the canonical form`() {
        for identifier in [
            (UInt64(0x0123_4567_89ab_cdef), UInt64(0xfedc_ba98_7654_3210)), (0, 0), (.max, .max), (1, 1 << 63),
        ] {
            let text = [UInt8](unsafeUninitializedCapacity: 36) { buffer, count in
                if let start = buffer.baseAddress { Hexadecimal.writeUUID(identifier, to: start) }
                count = 36
            }
            let plain = [identifier.0, identifier.1]
                .map {
                    String(repeating: "0", count: $0.leadingZeroBitCount / 4 - ($0 == 0 ? 1 : 0))
                        + String($0, radix: 16)
                }
                .joined()
            let cuts = [0, 8, 12, 16, 20, 32]
            let parts = zip(cuts, cuts.dropFirst()).map { plain.dropFirst($0).prefix($1 - $0) }
            #expect(String(decoding: text, as: UTF8.self) == parts.joined(separator: "-"))
        }
    }

    /// Tests every byte at every position of texts of several lengths, because the compiler may make the loop test
    /// sixteen bytes at once.
    @Test(arguments: [1, 7, 8, 9, 64])
    func `Only lower-case digits count as lower case`(count: Int) {
        var text = [UInt8](repeating: UInt8(ascii: "f"), count: count)
        for position in 0..<count {
            for byte in UInt8.min...UInt8.max {
                text[position] = byte
                let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
                let isTaken = text.withUnsafeBytes { Hexadecimal.areLowerCaseDigits($0) }
                if isTaken != (isDigit || isLetter) { Issue.record("byte \(byte) at \(position)") }
            }
            text[position] = UInt8(ascii: "f")
        }
    }

    @Test func `Digits of either case are read`() {
        for text in ["0123456789abcdefABCDEF", "ABCDEFab", "aaaaaaaaa"] {
            #expect(Array(text.utf8).withUnsafeBytes { Hexadecimal.areDigits($0) })
        }
        for text in [
            "0123456g", "g1234567", "01234567g", "0123456\u{e6}", "@@@@@@@@", "````````", "////////", "::::::::",
        ] {
            #expect(!Array(text.utf8).withUnsafeBytes { Hexadecimal.areDigits($0) })
        }
    }

    @Test func `Bytes are written as digits`() {
        var text = [UInt8](repeating: 0, count: 6)
        let count = text.withUnsafeMutableBytes { target in
            [UInt8]([0x00, 0x9F, 0xA5]).withUnsafeBytes { Hexadecimal.write($0, to: target) }
        }
        #expect(count == 6)
        #expect(String(decoding: text, as: UTF8.self) == "009fa5")
    }
}
