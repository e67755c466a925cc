/// One JSON record of an input, and the line where it begins.
package struct InputRecord: Equatable {
    package var bytes: [UInt8]
    /// The line of the record's first byte, counted from 1.
    package var lineNumber: Int
}

/// Cuts the bytes of an input into JSON records. A line may contain one record, a part of a record, or several records.
///
/// - A record that begins with a bracket ends where this bracket is closed.
/// - A line that begins with `{` always begins a new record. So a record with a missing bracket does not affect the
///   next one.
/// - Any other text, such as `abc` between two records, is a record of its own, up to the end of the line.
///
/// The splitter does not check whether a record is valid.
package struct RecordSplitter {
    /// The maximum number of bytes of a record, far more than Causeway accepts. A longer text is cut into several
    /// records. Without this limit, a bracket that is never closed could fill the memory.
    static let recordBytesMax = 1 << 20

    private var record: [UInt8] = []
    private var recordLineNumber = 0
    private var lineNumber = 1
    private var isLineStart = true
    private var bracketDepth = 0
    private var isInString = false
    private var isEscaped = false

    /// Reads the next bytes of the input, and passes every record that ends in them to the body.
    mutating func split(_ bytes: some Sequence<UInt8>, _ body: (InputRecord) throws -> Void) rethrows {
        for byte in bytes {
            if isLineStart, byte == UInt8(ascii: "{") { try endRecord(body) }
            isLineStart = byte == UInt8(ascii: "\n")
            if record.isEmpty {
                if !Self.isWhitespace(byte) { beginRecord(with: byte) }
            } else {
                record.append(byte)
                updateNesting(with: byte)
            }
            let isComplete = !record.isEmpty && bracketDepth == 0 && (Self.isOpeningBracket(record[0]) || isLineStart)
            if isComplete || record.count >= Self.recordBytesMax { try endRecord(body) }
            if isLineStart { lineNumber += 1 }
        }
    }

    /// Call this at the end of the input. Passes the record that has not ended yet to the body, if there is one.
    mutating func finish(_ body: (InputRecord) throws -> Void) rethrows {
        try endRecord(body)
    }

    private mutating func beginRecord(with byte: UInt8) {
        record.append(byte)
        recordLineNumber = lineNumber
        bracketDepth = Self.isOpeningBracket(byte) ? 1 : 0
        isInString = false
        isEscaped = false
    }

    private mutating func updateNesting(with byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\n"):
            // A JSON string cannot contain a line end, so an open quote ends here.
            isInString = false
            isEscaped = false
        case _ where isEscaped:
            isEscaped = false
        case UInt8(ascii: "\\") where isInString:
            isEscaped = true
        case UInt8(ascii: "\""):
            isInString.toggle()
        case _ where isInString:
            break
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            if Self.isOpeningBracket(record[0]) { bracketDepth += 1 }
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            bracketDepth = max(0, bracketDepth - 1)
        default:
            break
        }
    }

    private mutating func endRecord(_ body: (InputRecord) throws -> Void) rethrows {
        while let last = record.last, Self.isWhitespace(last) { record.removeLast() }
        guard !record.isEmpty else { return }
        let completeRecord = InputRecord(bytes: record, lineNumber: recordLineNumber)
        record.removeAll(keepingCapacity: true)
        bracketDepth = 0
        try body(completeRecord)
    }

    private static func isOpeningBracket(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[")
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }
}
