/// One JSON record of an input, and where it begins.
package struct InputRecord: Equatable {
    package var bytes: [UInt8]
    /// Of its first byte; counts from 1.
    package var line: Int
}

/// Cuts a stream of bytes into JSON records: one a line, or spread over lines, or one behind the other.
///
/// A record ends where its brackets close. So that one that is broken spoils no other, a line that begins with `{`
/// begins a record, whatever came before; what stands between records, and begins with no bracket, is a record of its
/// own up to the line's end. Whether a record is any good is not decided here.
package struct RecordCutter {
    /// Bytes of a record, after which it is cut off: far beyond what Causeway accepts.
    static let recordBytesMax = 1 << 20

    private var record: [UInt8] = []
    private var recordLine = 0
    private var line = 1
    private var isLineStart = true
    private var depth = 0
    private var isInText = false
    private var isEscaped = false

    /// Takes the next bytes of the input, and hands on every record that ends in them.
    mutating func take(_ bytes: some Sequence<UInt8>, _ body: (InputRecord) throws -> Void) rethrows {
        for byte in bytes {
            if isLineStart, byte == UInt8(ascii: "{") { try end(body) }
            isLineStart = byte == UInt8(ascii: "\n")
            if record.isEmpty {
                if !Self.isBlank(byte) { begin(with: byte) }
            } else {
                record.append(byte)
                advance(byte)
            }
            let isComplete = !record.isEmpty && depth == 0 && (Self.isOpening(record[0]) || isLineStart)
            if isComplete || record.count >= Self.recordBytesMax { try end(body) }
            if isLineStart { line += 1 }
        }
    }

    /// The input is over: hands on what is left.
    mutating func finish(_ body: (InputRecord) throws -> Void) rethrows {
        try end(body)
    }

    private mutating func begin(with byte: UInt8) {
        record.append(byte)
        recordLine = line
        depth = Self.isOpening(byte) ? 1 : 0
        isInText = false
        isEscaped = false
    }

    private mutating func advance(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\n"):
            // No JSON string goes over a line's end: a quote that was left open ends here.
            isInText = false
            isEscaped = false
        case _ where isEscaped:
            isEscaped = false
        case UInt8(ascii: "\\") where isInText:
            isEscaped = true
        case UInt8(ascii: "\""):
            isInText.toggle()
        case _ where isInText:
            break
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            if Self.isOpening(record[0]) { depth += 1 }
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            depth = max(0, depth - 1)
        default:
            break
        }
    }

    private mutating func end(_ body: (InputRecord) throws -> Void) rethrows {
        while let last = record.last, Self.isBlank(last) { record.removeLast() }
        guard !record.isEmpty else { return }
        let complete = InputRecord(bytes: record, line: recordLine)
        record.removeAll(keepingCapacity: true)
        depth = 0
        try body(complete)
    }

    private static func isOpening(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[")
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }
}
