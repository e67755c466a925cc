/// Reads the rows of a comma-separated file (RFC 4180). Quoted fields may contain commas, line breaks and doubled
/// quotes.
struct CommaSeparatedValues {
    struct Row: Equatable {
        /// The line on which the row begins, counted from 1.
        var lineNumber: Int
        var fields: [String]
    }

    /// The maximum number of rows of a file. No real season has so many, and a larger file is refused.
    static let rowsMax = 1_000_000
    static let fieldsMax = 64

    private let bytes: [UInt8]
    private let file: String
    private var position = 0
    private var lineNumber = 1

    private init(_ bytes: [UInt8], file: String) {
        self.bytes = bytes
        self.file = file
    }

    /// Returns every row of `bytes`, including the header. Line ends are LF or CRLF, and the last one may be missing.
    static func rows(of bytes: [UInt8], file: String) throws(SeasonError) -> [Row] {
        var reader = CommaSeparatedValues(bytes, file: file)
        var rows: [Row] = []
        while reader.position < bytes.count {
            guard rows.count < rowsMax else { throw reader.makeFault("more than \(rowsMax) rows") }
            rows.append(try reader.readRow())
        }
        return rows
    }

    private mutating func readRow() throws(SeasonError) -> Row {
        var row = Row(lineNumber: lineNumber, fields: [])
        while true {
            guard row.fields.count < Self.fieldsMax else { throw makeFault("more than \(Self.fieldsMax) fields") }
            row.fields.append(try readField())
            guard position < bytes.count else { return row }
            switch bytes[position] {
            case UInt8(ascii: ","):
                position += 1
            case UInt8(ascii: "\r") where position + 1 < bytes.count && bytes[position + 1] == UInt8(ascii: "\n"):
                position += 2
                lineNumber += 1
                return row
            case UInt8(ascii: "\n"):
                position += 1
                lineNumber += 1
                return row
            default:
                throw makeFault("text after the closing quote of field \(row.fields.count)")
            }
        }
    }

    private mutating func readField() throws(SeasonError) -> String {
        if position < bytes.count, bytes[position] == UInt8(ascii: "\"") { return try readQuotedField() }
        let start = position
        scan: while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: ","), UInt8(ascii: "\n"), UInt8(ascii: "\r"): break scan
            case UInt8(ascii: "\""): throw makeFault("a quote inside a field that is not quoted")
            default: position += 1
            }
        }
        return try decodeText(bytes[start..<position])
    }

    private mutating func readQuotedField() throws(SeasonError) -> String {
        let openingLineNumber = lineNumber
        position += 1
        var content: [UInt8] = []
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            if byte == UInt8(ascii: "\"") {
                guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else {
                    return try decodeText(content[...])
                }
                position += 1
            } else if byte == UInt8(ascii: "\n") {
                lineNumber += 1
            }
            content.append(byte)
        }
        throw SeasonError(file: file, line: openingLineNumber, reason: "a quoted field is not closed")
    }

    private func decodeText(_ content: ArraySlice<UInt8>) throws(SeasonError) -> String {
        guard let text = String(validating: content, as: UTF8.self) else { throw makeFault("text that is not UTF-8") }
        return text
    }

    private func makeFault(_ reason: String) -> SeasonError {
        SeasonError(file: file, line: lineNumber, reason: reason)
    }
}
