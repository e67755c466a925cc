/// HPACK's decoder for responses (RFC 7541). It keeps only what ``ResponseHead`` needs. With nghttp2's decoder, which
/// allocates the texts of fields, a push took 12.5 % more instructions (Measurements.md).
///
/// The dynamic table holds the size, the kind and the needed value of each field, but no text.
struct HeaderDecoder: ~Copyable {
    /// SETTINGS_HEADER_TABLE_SIZE. We do not send this setting, so its default applies.
    static let tableBytesMax = 4_096
    /// The maximum number of entries in the dynamic table: each entry counts as at least 32 of the table's 4,096 bytes.
    /// A power of two, so that a bit mask keeps an index within the memory.
    private static let entriesMax = 128
    /// The longest encoded name or value that is accepted (RFC 7541, section 7.4). `huffmanOutput` has room for the
    /// decoded text.
    static let stringBytesMax = 8_192

    private let dynamicEntries: UnsafeMutablePointer<HeaderField>
    /// The index of the newest entry. The older entries follow it, and wrap to index 0 at the end of the memory.
    private var newestIndex = 0
    private var entryCount = 0
    private var tableBytes = 0
    private var currentTableBytesMax = HeaderDecoder.tableBytesMax
    /// Room for one decoded Huffman string.
    private let huffmanOutput: UnsafeMutableRawBufferPointer
    private let huffman = Huffman.code
    private let staticHeaders = StaticHeaders.table

    init() {
        dynamicEntries = .allocate(capacity: Self.entriesMax)
        let emptyField = HeaderField(name: UnsafeRawBufferPointer(start: nil, count: 0))
        dynamicEntries.initialize(repeating: emptyField, count: Self.entriesMax)
        huffmanOutput = .allocate(
            byteCount: Huffman.decodedBytesMax(encodedBytes: Self.stringBytesMax) + 16,
            alignment: 16
        )
    }

    deinit {
        dynamicEntries.deallocate()
        huffmanOutput.deallocate()
    }

    /// Decodes one whole header block. After a thrown fault the table may be wrong, so the caller must end the
    /// connection (RFC 9113, section 4.3).
    mutating func decode(_ block: UnsafeRawBufferPointer) throws(ConnectionFault) -> ResponseHead {
        var head = ResponseHead()
        var rest = block
        var mayResizeTable = true
        while let first = rest.first {
            if first & 0x80 != 0 {
                let index = try readInteger(&rest, prefixBits: 7)
                head.add(try field(at: index))
            } else if first & 0x40 != 0 {
                let field = try readLiteral(&rest, prefixBits: 6)
                insert(field)
                head.add(field)
            } else if first & 0x20 != 0 {
                guard mayResizeTable else {
                    throw compressionFault("a table size update after a field (RFC 7541, 4.2)")
                }
                try resizeTable(try readInteger(&rest, prefixBits: 5))
                continue
            } else {
                head.add(try readLiteral(&rest, prefixBits: 4))
            }
            mayResizeTable = false
        }
        return head
    }

    private func compressionFault(_ detail: StaticString) -> ConnectionFault {
        ConnectionFault(.compressionError, detail)
    }

    // MARK: - Representations of header fields

    private mutating func readLiteral(
        _ rest: inout UnsafeRawBufferPointer,
        prefixBits: UInt8
    ) throws(ConnectionFault) -> HeaderField {
        let index = try readInteger(&rest, prefixBits: prefixBits)
        var result = index == 0 ? HeaderField(name: try readString(&rest)) : try field(at: index)
        result.setValue(try readString(&rest))
        return result
    }

    /// Reads an integer (RFC 7541, section 5.1). No valid integer in a response needs more than 28 bits, so a
    /// longer one is a fault.
    private func readInteger(
        _ rest: inout UnsafeRawBufferPointer,
        prefixBits: UInt8
    ) throws(ConnectionFault) -> Int {
        guard let first = rest.first else { throw compressionFault("a header block that ends too soon") }
        let prefixMax = UInt8(1) << prefixBits - 1
        var number = Int(first & prefixMax)
        var readByteCount = 1
        if first & prefixMax == prefixMax {
            var shift = 0
            while true {
                guard readByteCount < rest.count else { throw compressionFault("a header block that ends too soon") }
                guard shift <= 21 else { throw compressionFault("a number that is too large (RFC 7541, 7.4)") }
                let byte = rest[readByteCount]
                number += Int(byte & 0x7F) << shift
                shift += 7
                readByteCount += 1
                if byte & 0x80 == 0 { break }
            }
        }
        rest = UnsafeRawBufferPointer(rebasing: rest[readByteCount...])
        return number
    }

    /// Reads a string (RFC 7541, section 5.2). The bytes are valid until the next string is read.
    private func readString(_ rest: inout UnsafeRawBufferPointer) throws(ConnectionFault) -> UnsafeRawBufferPointer {
        guard let first = rest.first else { throw compressionFault("a header block that ends too soon") }
        let byteCount = try readInteger(&rest, prefixBits: 7)
        guard byteCount <= rest.count else { throw compressionFault("a header block that ends too soon") }
        guard byteCount <= Self.stringBytesMax else {
            throw compressionFault("a string that is too long (RFC 7541, 7.4)")
        }
        let encoded = UnsafeRawBufferPointer(rebasing: rest[..<byteCount])
        rest = UnsafeRawBufferPointer(rebasing: rest[byteCount...])
        guard first & 0x80 != 0 else { return encoded }
        guard let count = huffman.decode(encoded, into: huffmanOutput) else {
            throw compressionFault("a string that is not Huffman code (RFC 7541, 5.2)")
        }
        return UnsafeRawBufferPointer(rebasing: huffmanOutput[..<count])
    }

    // MARK: - Static and dynamic table

    /// Returns an entry of the static or the dynamic table (RFC 7541, section 2.3.3).
    private func field(at index: Int) throws(ConnectionFault) -> HeaderField {
        if let field = staticHeaders[index] { return field }
        let age = index - StaticHeaders.count - 1
        guard age >= 0, age < entryCount else { throw compressionFault("an index beyond the table (RFC 7541, 2.3.3)") }
        return dynamicEntries[(newestIndex + age) & (Self.entriesMax - 1)]
    }

    /// Adds a field to the dynamic table, after removing the oldest entries to make room.
    private mutating func insert(_ field: HeaderField) {
        let entryBytes = field.tableEntryBytes
        evict(downTo: currentTableBytesMax - entryBytes)
        // A field that is larger than the whole table empties the table. This is not an error (RFC 7541,
        // section 4.4).
        guard entryBytes <= currentTableBytesMax else { return }
        newestIndex = (newestIndex - 1) & (Self.entriesMax - 1)
        dynamicEntries[newestIndex] = field
        entryCount += 1
        tableBytes += entryBytes
    }

    private mutating func resizeTable(_ byteCount: Int) throws(ConnectionFault) {
        guard byteCount <= Self.tableBytesMax else {
            throw compressionFault("a table larger than allowed (RFC 7541, 6.3)")
        }
        currentTableBytesMax = byteCount
        evict(downTo: byteCount)
    }

    private mutating func evict(downTo byteCount: Int) {
        while tableBytes > byteCount, entryCount > 0 {
            entryCount -= 1
            tableBytes -= dynamicEntries[(newestIndex + entryCount) & (Self.entriesMax - 1)].tableEntryBytes
        }
    }
}

/// The static table of HPACK (RFC 7541, appendix A), with the sizes and meanings that the decoder needs.
struct StaticHeaders: @unchecked Sendable {
    static let table = StaticHeaders()
    static let count = 61

    /// The memory is written once and never freed, so all threads may read it.
    private let fields: UnsafeMutablePointer<HeaderField>

    private init() {
        fields = .allocate(capacity: Self.count + 1)
        fields.initialize(to: HeaderField(name: UnsafeRawBufferPointer(start: nil, count: 0)))
        for (index, (name, value)) in staticHeaderTexts.enumerated() {
            var field = Array(name.utf8).withUnsafeBytes { HeaderField(name: $0) }
            Array(value.utf8).withUnsafeBytes { field.setValue($0) }
            fields.advanced(by: index + 1).initialize(to: field)
        }
    }

    subscript(_ index: Int) -> HeaderField? {
        index > 0 && index <= Self.count ? fields[index] : nil
    }
}

private let staticHeaderTexts: [(name: String, value: String)] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
]
