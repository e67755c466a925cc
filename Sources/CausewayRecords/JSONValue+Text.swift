import Foundation

extension JSONValue {
    /// Reads a JSON text (RFC 8259). If an object has a key several times, the first of its values counts.
    ///
    /// - Throws: a fault if the text is not JSON in UTF-8, or has more than 128 nested objects and arrays.
    public init(text: some Sequence<UInt8>) throws(RecordFault) {
        var reader = try JSONReader(Array(text))
        self = try reader.readText()
    }

    /// Returns the JSON text, with sorted keys and without white space. The same value always has the same bytes.
    ///
    /// - Throws: a fault if a number cannot be written in JSON, for example infinity.
    public func text() throws(RecordFault) -> Data {
        var bytes: [UInt8] = []
        try write(to: &bytes)
        return Data(bytes)
    }

    private func write(to bytes: inout [UInt8]) throws(RecordFault) {
        switch self {
        case .null: bytes += "null".utf8
        case .boolean(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += String(value).utf8
        case .unsigned(let value): bytes += String(value).utf8
        case .number(let value):
            guard value.isFinite else { throw RecordFault("", "JSON has no number \(value)") }
            bytes += Self.digits(value).utf8
        case .numeral(let digits):
            guard JSONReader.isNumber(digits) else { throw RecordFault("", "JSON has no number \(digits)") }
            bytes += digits.utf8
        case .string(let value): Self.write(value, to: &bytes)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                try element.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.sortedMembers.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                Self.write(member.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                try member.value.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    /// Returns the shortest digits from which the same `Double` is read.
    static func digits(_ value: Double) -> String {
        let digits = value.description
        return digits.hasSuffix(".0") ? String(digits.dropLast(2)) : digits
    }

    /// Returns the number of bytes of a string in JSON: with escapes, without its quotes.
    static func escapedByteCount(_ text: String) -> Int {
        var bytes: [UInt8] = []
        write(text, to: &bytes)
        return bytes.count - 2
    }

    private static func write(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): bytes += #"\n"#.utf8
            case UInt8(ascii: "\r"): bytes += #"\r"#.utf8
            case UInt8(ascii: "\t"): bytes += #"\t"#.utf8
            case 0x00..<0x10: bytes += "\\u000\(String(byte, radix: 16))".utf8
            case 0x10..<0x20: bytes += "\\u00\(String(byte, radix: 16))".utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
