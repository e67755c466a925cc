import Numbers

/// Changes JSON texts a little, so that some become invalid and others stay valid.
package struct JSONMutator {
    package var random: SplitMix64
    /// The texts that are changed.
    package let originals: [[UInt8]]

    package init(random: SplitMix64, originals: [[UInt8]]) {
        self.random = random
        self.originals = originals
    }

    /// Pieces to insert: values, parts of values, keys, and bytes that UTF-8 or JSON do not allow.
    private static let pieces: [[UInt8]] =
        [
            "null", "true", "false", "0", "-0", "1", "-1", "5", "10", "01", "1.", "1.5", "1e5", "1E+2", "1e400", "-",
            "1790000000",
            "18446744073709551615", "18446744073709551616", "123456789012345678901234567890", "\"\"", "\"a\"", "{}",
            "[]",
            "{", "}", "[", "]", ",", ":", "\"", "\\", " ", "\n", "\t", "\r", "\u{C}", "\u{0}", "\\u0000", "\\u0061",
            "\\u00e9",
            "\\ud83d\\ude00", "\\ud800", "\\udc00", "\\ud800\\u0041", "\\n", "\\/", "\\x", "\\u12", "é", "€", "😀",
            "\u{7F}",
            "\u{85}", "\u{FEFF}", "\"start\"", "\"update\"", "\"end\"", "\"device\":\"d\",", "\"activity\":\"a\",",
            "\"aps\":{},",
            "\"alert\":{\"title\":\"t\",\"body\":\"b\"},", "\"attributes\":{},", "\"attributes-type\":\"T\",",
            "\"content-state\":{},",
            "\"dismissal-date\":0,", "\"input-push-token\":1,", "\"channel\":true,", "\"input-push-channel\":\"c\",",
            "\"loc-key\":\"k\",",
            "\"loc-args\":[\"x\"],", "\"x\":1,", "\"sequence\":7,", "\"priority\":5,", "\"payload\":{\"aps\":1},",
        ]
        .map { Array($0.utf8) } + [
            [0x80], [0xC0, 0x80], [0xC2], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF],
        ]

    /// Returns one of the originals with one or two random changes.
    package mutating func next() -> [UInt8] {
        var text = originals.randomElement(using: &random) ?? []
        for _ in 0..<Int.random(in: 1...2, using: &random) { mutate(&text) }
        return text
    }

    private mutating func mutate(_ text: inout [UInt8]) {
        let index = Int.random(in: 0...text.count, using: &random)
        let length = min(Int.random(in: 0...12, using: &random), text.count - index)
        switch Int.random(in: 0..<8, using: &random) {
        case 0: text.removeSubrange(index..<index + length)
        case 1:
            text.insert(
                contentsOf: text[index..<index + length],
                at: Int.random(in: 0...text.count, using: &random)
            )
        case 2: replaceValue(&text)
        case 3 where index < text.count: text[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 4:
            let otherOriginal = originals.randomElement(using: &random) ?? []
            text = Array(text[..<index] + otherOriginal[min(index, otherOriginal.count)...])
        case 5: replaceValue(&text)
        case 6: replaceMember(&text)
        default: text.insert(contentsOf: Self.pieces.randomElement(using: &random) ?? [], at: index)
        }
    }

    /// Replaces the bytes between a colon and the next comma or closing brace with a piece.
    private mutating func replaceValue(_ text: inout [UInt8]) {
        let colons = text.indices.filter { text[$0] == UInt8(ascii: ":") }
        guard let colon = colons.randomElement(using: &random) else { return }
        let end = text[(colon + 1)...].firstIndex { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "}") } ?? text.count
        text.replaceSubrange(colon + 1..<end, with: Self.pieces.randomElement(using: &random) ?? [])
    }

    /// Replaces the text after a comma, including the next comma, with a piece, or removes this text.
    private mutating func replaceMember(_ text: inout [UInt8]) {
        let commas = text.indices.filter { text[$0] == UInt8(ascii: ",") }
        guard let index = commas.indices.dropLast().randomElement(using: &random) else { return }
        let piece = Bool.random(using: &random) ? [] : Self.pieces.randomElement(using: &random) ?? []
        text.replaceSubrange(commas[index] + 1...commas[index + 1], with: piece)
    }
}
