/// The structure of one JSON text (RFC 8259): a flat list, the tape, of its values in document order.
///
/// A push's body is read without copies: no string, array or dictionary is created, and the next push reuses the tape.
/// A key precedes its value. A container's `nextIndex` is the index after its last descendant.
struct JSONTape: ~Copyable {
    /// The deepest nesting that is read. Foundation's decoder has the same limit.
    static let depthMax = 512
    /// The largest text that is read, in bytes. Bulk requests on the control interface need this much. Offsets have 32
    /// bits, which is enough.
    static let textBytesMax = 64 * 1_024 * 1_024

    enum Kind: UInt8 {
        case object, array, string, number, trueLiteral, falseLiteral, null
    }

    struct Value {
        var kind: Kind
        /// Whether the string contains a backslash. Such a string cannot be compared byte by byte.
        var hasEscapes: Bool
        /// The offsets of the value's first byte, and of the byte after its last. The quotes of a string are not part
        /// of the value.
        var start: UInt32
        var end: UInt32
        /// The index of the value that follows this value and its contents.
        ///
        /// The scan uses it differently for an array or object that is still open: 1 plus the index of the container
        /// around it; 0 if there is none.
        var nextIndex: UInt32
    }

    enum Fault: Error, Equatable, CustomStringConvertible {
        case tooLong
        case tooDeep
        case unexpectedByte(offset: Int)
        case unexpectedEnd
        case notUTF8

        /// The fault as the end of a message, for example after `not JSON: `.
        var description: String {
            switch self {
            case .tooLong: "it is longer than \(JSONTape.textBytesMax) bytes"
            case .tooDeep: "objects and arrays are nested more than \(JSONTape.depthMax) deep"
            case .unexpectedByte(let offset): "JSON does not allow the byte at offset \(offset)"
            case .unexpectedEnd: "it ends before the value is complete"
            case .notUTF8: "it is not UTF-8"
            }
        }
    }

    private var values: UnsafeMutableBufferPointer<Value>
    private(set) var count = 0
    private(set) var text = UnsafeRawBufferPointer(start: nil, count: 0)

    init(capacity: Int = 256) {
        values = .allocate(capacity: capacity)
    }

    deinit {
        values.deallocate()
    }

    /// Reads a text. The caller must neither free nor change the text as long as the tape is used.
    mutating func read(_ text: UnsafeRawBufferPointer) throws(Fault) {
        count = 0
        self.text = text
        guard text.count <= Self.textBytesMax else { throw .tooLong }
        guard isUTF8(text) else { throw .notUTF8 }
        var scanner = JSONScanner(text: text)
        try scanner.readValue(into: &self)
        scanner.skipSpace()
        guard scanner.isAtEnd else { throw .unexpectedByte(offset: scanner.offset) }
    }

    subscript(index: Int) -> Value {
        precondition(index >= 0 && index < count)
        return values[index]
    }

    mutating func append(_ value: Value) {
        if count == values.count { grow() }
        values[count] = value
        count += 1
    }

    mutating func closeContainer(_ index: Int, end: Int) {
        values[index].end = UInt32(truncatingIfNeeded: end)
        values[index].nextIndex = UInt32(truncatingIfNeeded: count)
    }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<Value>.allocate(capacity: max(256, values.count * 2))
        _ = larger.update(fromContentsOf: UnsafeBufferPointer(rebasing: UnsafeBufferPointer(values)[..<count]))
        values.deallocate()
        values = larger
    }
}

/// Scans a JSON text in one pass. Each open container links to the container around it (`nextIndex`), so the scanner
/// needs no stack.
///
/// Does not use `LiveActivity`'s scanner: the simulator checks the worker, so it shares no JSON code with the worker.
struct JSONScanner {
    private let text: UnsafeRawBufferPointer
    private(set) var offset = 0

    init(text: UnsafeRawBufferPointer) {
        self.text = text
    }

    var isAtEnd: Bool { offset == text.count }

    mutating func readValue(into tape: inout JSONTape) throws(JSONTape.Fault) {
        var openContainerNumber: UInt32 = 0  // 1 plus the index of the innermost open container; 0: none
        var depth = 0
        while true {
            skipSpace()
            let isContainer = try beginValue(into: &tape, parent: openContainerNumber)
            if isContainer {
                depth += 1
                guard depth <= JSONTape.depthMax else { throw .tooDeep }
                openContainerNumber = UInt32(truncatingIfNeeded: tape.count)
                if try !skipSpaceToClosingBracket(kind: tape[Int(openContainerNumber) - 1].kind) {
                    if tape[Int(openContainerNumber) - 1].kind == .object { try readKey(into: &tape) }
                    continue
                }
                offset += 1
                openContainerNumber = close(Int(openContainerNumber) - 1, in: &tape)
                depth -= 1
            }
            // A value is complete. Next comes a comma, the end of its container, or the end of the text.
            while openContainerNumber != 0 {
                skipSpace()
                let container = tape[Int(openContainerNumber) - 1].kind
                let byte = try readByte()
                if byte == UInt8(ascii: ",") {
                    skipSpace()
                    if container == .object { try readKey(into: &tape) }
                    break
                }
                guard byte == (container == .object ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
                    throw .unexpectedByte(offset: offset - 1)
                }
                openContainerNumber = close(Int(openContainerNumber) - 1, in: &tape)
                depth -= 1
            }
            if openContainerNumber == 0 { return }
        }
    }

    mutating func skipSpace() {
        while offset < text.count {
            switch text[offset] {
            case 0x20, 0x0A, 0x0D, 0x09: offset += 1
            default: return
            }
        }
    }

    private mutating func readByte() throws(JSONTape.Fault) -> UInt8 {
        guard offset < text.count else { throw .unexpectedEnd }
        offset += 1
        return text[offset - 1]
    }

    /// Skips white space. Returns whether the bracket that closes the container is next.
    private mutating func skipSpaceToClosingBracket(kind: JSONTape.Kind) throws(JSONTape.Fault) -> Bool {
        skipSpace()
        guard offset < text.count else { throw .unexpectedEnd }
        return text[offset] == (kind == .object ? UInt8(ascii: "}") : UInt8(ascii: "]"))
    }

    /// Closes a container. Returns 1 plus the index of the container around it, or 0 if it is the outermost container.
    private func close(_ index: Int, in tape: inout JSONTape) -> UInt32 {
        let parent = tape[index].nextIndex
        tape.closeContainer(index, end: offset)
        return parent
    }

    /// Reads a complete scalar, or the opening bracket of a container. Returns whether it is a container.
    private mutating func beginValue(into tape: inout JSONTape, parent: UInt32) throws(JSONTape.Fault) -> Bool {
        guard offset < text.count else { throw .unexpectedEnd }
        switch text[offset] {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            let kind: JSONTape.Kind = text[offset] == UInt8(ascii: "{") ? .object : .array
            let start = UInt32(truncatingIfNeeded: offset)
            tape.append(.init(kind: kind, hasEscapes: false, start: start, end: 0, nextIndex: parent))
            offset += 1
            return true
        case UInt8(ascii: "\""): try readString(into: &tape)
        case UInt8(ascii: "t"): try readLiteral("true", kind: .trueLiteral, into: &tape)
        case UInt8(ascii: "f"): try readLiteral("false", kind: .falseLiteral, into: &tape)
        case UInt8(ascii: "n"): try readLiteral("null", kind: .null, into: &tape)
        default: try readNumber(into: &tape)
        }
        return false
    }

    private mutating func readKey(into tape: inout JSONTape) throws(JSONTape.Fault) {
        guard offset < text.count else { throw .unexpectedEnd }
        guard text[offset] == UInt8(ascii: "\"") else { throw .unexpectedByte(offset: offset) }
        try readString(into: &tape)
        skipSpace()
        guard try readByte() == UInt8(ascii: ":") else { throw .unexpectedByte(offset: offset - 1) }
    }

    private mutating func append(
        _ kind: JSONTape.Kind,
        from start: Int,
        to end: Int,
        hasEscapes: Bool,
        in tape: inout JSONTape
    ) {
        tape.append(
            .init(
                kind: kind,
                hasEscapes: hasEscapes,
                start: UInt32(truncatingIfNeeded: start),
                end: UInt32(truncatingIfNeeded: end),
                nextIndex: UInt32(truncatingIfNeeded: tape.count + 1)
            )
        )
    }

    private mutating func readLiteral(
        _ word: StaticString,
        kind: JSONTape.Kind,
        into tape: inout JSONTape
    ) throws(JSONTape.Fault) {
        let start = offset
        for index in 0..<word.utf8CodeUnitCount where try readByte() != word.utf8Start[index] {
            throw .unexpectedByte(offset: offset - 1)
        }
        append(kind, from: start, to: offset, hasEscapes: false, in: &tape)
    }

    private mutating func readString(into tape: inout JSONTape) throws(JSONTape.Fault) {
        offset += 1
        let start = offset
        var hasEscapes = false
        while offset < text.count {
            let byte = text[offset]
            if byte == UInt8(ascii: "\"") {
                append(.string, from: start, to: offset, hasEscapes: hasEscapes, in: &tape)
                offset += 1
                return
            }
            guard byte >= 0x20 else { throw .unexpectedByte(offset: offset) }
            offset += 1
            if byte == UInt8(ascii: "\\") {
                hasEscapes = true
                try readEscape()
            }
        }
        throw .unexpectedEnd
    }

    /// Reads an escape. Throws for a surrogate without its other half, as Foundation does.
    private mutating func readEscape() throws(JSONTape.Fault) {
        switch try readByte() {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return
        case UInt8(ascii: "u"):
            let unit = try readUTF16Unit()
            guard unit & 0xF800 == 0xD800 else { return }
            guard unit < 0xDC00, try readByte() == UInt8(ascii: "\\"), try readByte() == UInt8(ascii: "u"),
                try readUTF16Unit() & 0xFC00 == 0xDC00
            else { throw .unexpectedByte(offset: offset - 1) }
        default:
            throw .unexpectedByte(offset: offset - 1)
        }
    }

    private mutating func readUTF16Unit() throws(JSONTape.Fault) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = hexDigitValue(try readByte()) else { throw .unexpectedByte(offset: offset - 1) }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    private mutating func readNumber(into tape: inout JSONTape) throws(JSONTape.Fault) {
        let start = offset
        if text[offset] == UInt8(ascii: "-") { offset += 1 }
        let first = try readByte()
        switch first {
        case UInt8(ascii: "0"): break
        case UInt8(ascii: "1")...UInt8(ascii: "9"): skipDigits()
        default: throw .unexpectedByte(offset: offset - 1)
        }
        if offset < text.count, text[offset] == UInt8(ascii: ".") {
            offset += 1
            try readDigits()
        }
        if offset < text.count, text[offset] | 0x20 == UInt8(ascii: "e") {
            offset += 1
            if offset < text.count, text[offset] == UInt8(ascii: "+") || text[offset] == UInt8(ascii: "-") {
                offset += 1
            }
            try readDigits()
        }
        append(.number, from: start, to: offset, hasEscapes: false, in: &tape)
    }

    private mutating func skipDigits() {
        while offset < text.count, text[offset] &- UInt8(ascii: "0") < 10 { offset += 1 }
    }

    private mutating func readDigits() throws(JSONTape.Fault) {
        guard try readByte() &- UInt8(ascii: "0") < 10 else { throw .unexpectedByte(offset: offset - 1) }
        skipDigits()
    }
}
