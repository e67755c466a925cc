/// Reads a JSON text, and keeps the digits of its numbers.
struct JSONReader {
    /// The maximum nesting of objects and arrays. It limits the recursion of the reader, so that no text can overflow
    /// the stack. The worker allows only 32.
    private static let depthMax = 128

    private let bytes: [UInt8]
    private var position = 0
    private var depth = 0

    init(_ bytes: [UInt8]) throws(RecordFault) {
        // `String` replaces bytes that are not UTF-8. If there are any, the bytes of the string differ from `bytes`.
        guard String(decoding: bytes, as: UTF8.self).utf8.elementsEqual(bytes) else {
            throw RecordFault("", "the text is not UTF-8")
        }
        self.bytes = bytes
    }

    mutating func readText() throws(RecordFault) -> JSONValue {
        skipWhitespace()
        let value = try readValue()
        skipWhitespace()
        guard position == bytes.count else { throw syntaxFault }
        return value
    }

    static func isNumber(_ digits: String) -> Bool {
        guard var reader = try? JSONReader(Array(digits.utf8)), (try? reader.readNumber()) != nil else { return false }
        return reader.position == reader.bytes.count
    }

    private var syntaxFault: RecordFault { RecordFault("", "not valid JSON (at byte \(position))") }

    private var nextByte: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipWhitespace() {
        while let byte = nextByte, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { position += 1 }
    }

    /// Skips the character if it comes next. Returns whether it came next.
    private mutating func skipIfNext(_ character: Character) -> Bool {
        guard nextByte == character.asciiValue else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ word: StaticString) throws(RecordFault) {
        for character in "\(word)" {
            guard skipIfNext(character) else { throw syntaxFault }
        }
    }

    private mutating func readValue() throws(RecordFault) -> JSONValue {
        switch nextByte {
        case UInt8(ascii: "{"): return try readNested { reader throws(RecordFault) in .object(try reader.readObject()) }
        case UInt8(ascii: "["): return try readNested { reader throws(RecordFault) in .array(try reader.readArray()) }
        case UInt8(ascii: "\""): return .string(try readString())
        case UInt8(ascii: "t"):
            try expect("true")
            return .boolean(true)
        case UInt8(ascii: "f"):
            try expect("false")
            return .boolean(false)
        case UInt8(ascii: "n"):
            try expect("null")
            return .null
        default: return try readNumber()
        }
    }

    private mutating func readNested(
        _ read: (inout JSONReader) throws(RecordFault) -> JSONValue
    ) throws(RecordFault) -> JSONValue {
        depth += 1
        guard depth <= Self.depthMax else {
            throw RecordFault("", "more than \(Self.depthMax) nested objects and arrays")
        }
        position += 1
        let value = try read(&self)
        depth -= 1
        return value
    }

    private mutating func readObject() throws(RecordFault) -> JSONObject {
        var members = JSONObject()
        skipWhitespace()
        if skipIfNext("}") { return members }
        while true {
            skipWhitespace()
            let key = try readString()
            skipWhitespace()
            guard skipIfNext(":") else { throw syntaxFault }
            skipWhitespace()
            let value = try readValue()
            if members[key] == nil { members[key] = value }
            skipWhitespace()
            if skipIfNext("}") { return members }
            guard skipIfNext(",") else { throw syntaxFault }
        }
    }

    private mutating func readArray() throws(RecordFault) -> [JSONValue] {
        var elements: [JSONValue] = []
        skipWhitespace()
        if skipIfNext("]") { return elements }
        while true {
            skipWhitespace()
            elements.append(try readValue())
            skipWhitespace()
            if skipIfNext("]") { return elements }
            guard skipIfNext(",") else { throw syntaxFault }
        }
    }

    private mutating func readNumber() throws(RecordFault) -> JSONValue {
        let start = position
        _ = skipIfNext("-")
        if !skipIfNext("0") { try skipDigits() }
        if skipIfNext(".") { try skipDigits() }
        if skipIfNext("e") || skipIfNext("E") {
            if !skipIfNext("-") { _ = skipIfNext("+") }
            try skipDigits()
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if let value = Int64(text), String(value) == text { return .integer(value) }
        if let value = UInt64(text), String(value) == text { return .unsigned(value) }
        if let value = Double(text), value.isFinite, JSONValue.digits(value) == text { return .number(value) }
        return .numeral(text)
    }

    /// Skips digits. Throws if there is none.
    private mutating func skipDigits() throws(RecordFault) {
        let start = position
        while let byte = nextByte, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw syntaxFault }
    }

    private mutating func readString() throws(RecordFault) -> String {
        guard skipIfNext("\"") else { throw syntaxFault }
        var content: [UInt8] = []
        while let byte = nextByte, byte >= 0x20 {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: content, as: UTF8.self)
            case UInt8(ascii: "\\"): try readEscape(to: &content)
            default: content.append(byte)
            }
        }
        throw syntaxFault
    }

    private mutating func readEscape(to content: inout [UInt8]) throws(RecordFault) {
        guard let byte = nextByte else { throw syntaxFault }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(byte)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0C)
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "u"):
            let scalar = try readUnicodeEscape()
            content += String(Character(scalar)).utf8
        default:
            position -= 1
            throw syntaxFault
        }
    }

    /// Reads the four digits after `\u`. If they are the first half of a surrogate pair, also reads the `\u` escape
    /// that must follow: the second half.
    private mutating func readUnicodeEscape() throws(RecordFault) -> Unicode.Scalar {
        let first = try readCodeUnit()
        if let scalar = Unicode.Scalar(first) { return scalar }
        try expect("\\u")
        let second = try readCodeUnit()
        let text = String(decoding: [UInt16(first), UInt16(second)], as: UTF16.self)
        guard (0xD800..<0xDC00).contains(first), (0xDC00..<0xE000).contains(second),
            let scalar = text.unicodeScalars.first
        else { throw RecordFault("", "half of a surrogate pair (at byte \(position))") }
        return scalar
    }

    private mutating func readCodeUnit() throws(RecordFault) -> UInt32 {
        let end = min(position + 4, bytes.count)
        let text = String(decoding: bytes[position..<end], as: UTF8.self)
        guard text.utf8.count == 4, text.allSatisfy(\.isHexDigit), let value = UInt32(text, radix: 16) else {
            throw syntaxFault
        }
        position = end
        return value
    }
}
