import LiveActivity

/// The known differences between Foundation's JSONDecoder and the worker's decoder. Any other difference fails a test.
package enum FoundationDeviation {
    /// Foundation accepts a comma before a closing bracket.
    package static func isTrailingComma(_ text: [UInt8], _ fault: Fault) -> Bool {
        guard fault.code == .notJSON, fault.offset < text.count, [0x5D, 0x7D].contains(text[fault.offset]) else {
            return false
        }
        return text[..<fault.offset].last { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: ",")
    }

    /// Foundation skips a byte order mark. It reads a text with NUL among the first bytes as UTF-16 or UTF-32.
    package static func isOtherEncoding(_ text: [UInt8]) -> Bool {
        text.starts(with: [0xEF, 0xBB, 0xBF]) || text.starts(with: [0xFE, 0xFF]) || text.starts(with: [0xFF, 0xFE])
            || text.prefix(4).contains(0)
    }

    /// Foundation refuses a number that would be infinite or zero as a `Double`. The worker's decoder has no such
    /// limit.
    package static func hasNumberBeyondDouble(_ text: [UInt8]) -> Bool {
        text.split { !numberCharacters.contains($0) }
            .contains { literal in
                guard let value = Double(String(decoding: literal, as: UTF8.self)) else { return false }
                let mantissa = literal.prefix { $0 | 0x20 != UInt8(ascii: "e") }
                return value.isInfinite || value == 0 && mantissa.contains { (0x31...0x39).contains($0) }
            }
    }

    private static let numberCharacters = Set("+-.0123456789eE".utf8)

    /// Faults that only the worker's decoder reports. Foundation has none of these limits. If a key is repeated,
    /// Foundation keeps one of its values.
    package static let decoderOnlyFaults: Set<FaultCode> = [
        .tooDeep, .tooLong, .tooMany, .bodyTooLarge, .recordTooLarge, .duplicateKey,
    ]

    /// Foundation accepts 1.0 and 1e2 as integers, and -0 as an unsigned integer. The worker's decoder refuses them.
    package static func isIntegerInOtherForm(_ text: [UInt8], _ fault: Fault) -> Bool {
        guard fault.code == .wrongType || fault.code == .outOfRange, fault.offset < text.count else { return false }
        let literal = text[fault.offset...].prefix { numberCharacters.contains($0) }
        return literal.contains { ".eE".utf8.contains($0) } || literal.elementsEqual("-0".utf8)
    }
}
