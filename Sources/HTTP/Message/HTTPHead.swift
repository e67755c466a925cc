/// The first line and the header fields of a request or of a response (RFC 9112, section 2.1).
struct HTTPHead: Equatable {
    /// The maximum number of bytes in the first line and the fields together, if a caller sets no other limit. Longer
    /// heads cost too much time: the search for the end starts from the beginning whenever bytes arrive.
    static let bytesMax = 8_192
    static let fieldsMax = 64

    var firstLine: Substring
    var fields: HTTPFields

    /// Reads one head from the beginning of the received bytes.
    ///
    /// - Returns: the head and its number of bytes; nil if the head is not complete.
    static func parse(
        _ bytes: [UInt8],
        bytesMax: Int = Self.bytesMax
    ) throws(HTTPFault) -> (head: HTTPHead, byteCount: Int)? {
        guard let end = endIndex(of: bytes.prefix(bytesMax)) else {
            guard bytes.count <= bytesMax else { throw .headTooLarge }
            return nil
        }
        // Bytes that are not UTF-8 become replacement characters, which does no harm: the values that this module looks
        // for are ASCII.
        let lines = String(decoding: bytes[..<(end - 4)], as: UTF8.self)
            .split(separator: "\r\n", omittingEmptySubsequences: false)
        guard let first = lines.first, lines.count - 1 <= fieldsMax else { throw .headTooLarge }
        guard !first.contains(where: isControl) else { throw .malformed }
        var fields = HTTPFields()
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":"), HTTPFields.isToken(line[..<colon]) else { throw .malformed }
            let value = line[line.index(after: colon)...].trimmed
            guard !value.contains(where: isControl) else { throw .malformed }
            fields.append(name: line[..<colon], value: value)
        }
        return (HTTPHead(firstLine: first, fields: fields), end)
    }

    /// Returns the index after the empty line that ends the head; nil if this line has not arrived.
    private static func endIndex(of bytes: ArraySlice<UInt8>) -> Int? {
        var index = 3
        while index < bytes.endIndex {
            if bytes[index] == 0x0A, bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A, bytes[index - 3] == 0x0D {
                return index + 1
            }
            index += 1
        }
        return nil
    }

    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { $0.value < 0x20 && $0 != "\t" || $0.value == 0x7F }
    }
}
