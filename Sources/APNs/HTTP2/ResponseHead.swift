import Numbers

/// What the program needs of the header fields of a response, an informational response or trailers.
struct ResponseHead {
    /// The longest list of header fields, counted as in RFC 9113, section 6.5.2. The lists of APNs have fewer
    /// than 300 bytes.
    static let headerListBytesMax = 16_384

    /// `:status`; 0 if there is none.
    var status: UInt16 = 0
    /// Whether there is an `apns-id`, or an `apns-request-id` of a broadcast's response.
    var hasIdentifier = false
    /// The `apns-id`, or the `apns-request-id` of a broadcast's response; (0, 0) if there is none, or if it is not a
    /// UUID in canonical form.
    var identifier: (UInt64, UInt64) = (0, 0)
    /// `content-length`; -1 if there is none.
    var contentLengthBytes: Int32 = -1
    /// Whether the fields break a rule of RFC 9113, section 8, or are too long. If true, ignore all fields.
    var isMalformed = false
    private var headerListBytes = 0
    /// Whether a field that is not a pseudo-header field has come.
    private var hasRegularField = false

    mutating func add(_ field: HeaderField) {
        headerListBytes += Int(field.nameByteCount) + Int(field.valueByteCount) + HeaderField.overheadBytes
        if !field.isValid || headerListBytes > Self.headerListBytesMax { isMalformed = true }
        switch field.kind {
        case .status:
            // Pseudo-header fields come before all others, and only once (RFC 9113, section 8.3).
            if hasRegularField || status != 0 { isMalformed = true }
            status = UInt16(truncatingIfNeeded: field.numericValue)
            return
        case .identifier:
            hasIdentifier = true
            identifier = field.identifier
        case .contentLength:
            // A repeated length must be the same (RFC 9110, section 8.6).
            if contentLengthBytes >= 0, contentLengthBytes != field.numericValue { isMalformed = true }
            contentLengthBytes = field.numericValue
        case .other:
            break
        }
        hasRegularField = true
    }
}

/// One header field. Keeps only the values that the program needs, never the text.
struct HeaderField {
    enum Kind: UInt8 {
        case other, status, identifier, contentLength
    }

    /// The bytes that HPACK and HTTP/2 add to the size of each field (RFC 7541, section 4.1).
    static let overheadBytes = 32

    var kind = Kind.other
    /// Whether the name is allowed in a response (RFC 9113, sections 8.2 and 8.3.2).
    var isNameValid = true
    /// Whether the value is allowed in a response (RFC 9113, sections 8.2 and 8.3.2).
    var isValueValid = true
    var nameByteCount: Int32 = 0
    var valueByteCount: Int32 = 0
    /// The number in the value of `:status` or `content-length`; 0 for an invalid `:status`, -1 for an invalid
    /// `content-length`. No meaning for other fields.
    var numericValue: Int32 = 0
    var identifier: (UInt64, UInt64) = (0, 0)

    var isValid: Bool { isNameValid && isValueValid }
    var tableEntryBytes: Int { Int(nameByteCount) + Int(valueByteCount) + Self.overheadBytes }

    /// Makes a field without its value. The value comes later, by `setValue`, because the name decides how the value is
    /// read.
    init(name: UnsafeRawBufferPointer) {
        nameByteCount = Int32(truncatingIfNeeded: name.count)
        switch name.count {
        case 7 where (":status" as StaticString).equals(name): kind = .status
        case 7 where ("apns-id" as StaticString).equals(name): kind = .identifier
        case 14 where ("content-length" as StaticString).equals(name): kind = .contentLength
        case 15 where ("apns-request-id" as StaticString).equals(name): kind = .identifier
        default: isNameValid = HeaderField.isValidName(name)
        }
    }

    mutating func setValue(_ value: UnsafeRawBufferPointer) {
        valueByteCount = Int32(truncatingIfNeeded: value.count)
        isValueValid = true
        switch kind {
        case .status:
            let status = value.count == 3 ? Decimal.parse(value, max: 999) ?? 0 : 0
            numericValue = Int32(truncatingIfNeeded: status)
            isValueValid = status >= 100
        case .identifier:
            if let uuid = Hexadecimal.readUUID(value) {
                identifier = uuid
            } else {
                identifier = (0, 0)
                isValueValid = HeaderField.isValidValue(value)
            }
        case .contentLength:
            let contentByteCount = Decimal.parse(value, max: UInt64(Int32.max))
            numericValue = contentByteCount.map { Int32($0) } ?? -1
            isValueValid = contentByteCount != nil
        case .other:
            isValueValid = HeaderField.isValidValue(value)
        }
    }

    /// Whether a name is allowed in a response. Unknown pseudo-header fields, names with upper-case letters and
    /// HTTP/1.1's connection fields are not allowed.
    private static func isValidName(_ name: UnsafeRawBufferPointer) -> Bool {
        switch name.count {
        case 0: return false
        case 7 where ("upgrade" as StaticString).equals(name): return false
        case 10 where ("connection" as StaticString).equals(name): return false
        case 10 where ("keep-alive" as StaticString).equals(name): return false
        case 16 where ("proxy-connection" as StaticString).equals(name): return false
        case 17 where ("transfer-encoding" as StaticString).equals(name): return false
        default: return name.allSatisfy(isNameByte)
        }
    }

    /// Whether the byte may be in a token (RFC 9110, section 5.6.2) and is no upper-case letter.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// Whether the value has no NUL, line feed or carriage return, and no white space at either end (RFC 9113, section
    /// 8.2.1).
    private static func isValidValue(_ value: UnsafeRawBufferPointer) -> Bool {
        guard let first = value.first, let last = value.last else { return true }
        guard first != 0x20, first != 0x09, last != 0x20, last != 0x09 else { return false }
        var offset = 0
        while offset + 8 <= value.count {
            let block = value.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let ones: UInt64 = 0x0101_0101_0101_0101
            guard !hasZero(block), !hasZero(block ^ ones &* 0x0A), !hasZero(block ^ ones &* 0x0D) else { return false }
            offset += 8
        }
        while offset < value.count {
            guard value[offset] != 0, value[offset] != 0x0A, value[offset] != 0x0D else { return false }
            offset += 1
        }
        return true
    }

    /// Whether one of the eight bytes is 0.
    private static func hasZero(_ block: UInt64) -> Bool {
        (block &- 0x0101_0101_0101_0101) & ~block & 0x8080_8080_8080_8080 != 0
    }
}
