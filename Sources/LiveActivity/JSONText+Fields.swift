/// Reads the values that commands and registrations have in common.
extension JSONText {
    /// Returns the position of the record's object. Throws if anything but white space precedes it.
    @inline(__always)
    func findRecordStart() throws(Fault) -> Int {
        let start = skipWhitespace(0)
        guard start < count, byte(start) == UInt8(ascii: "{") else { throw missingObjectFault(start) }
        return start
    }

    @inline(never)
    private func missingObjectFault(_ start: Int) -> Fault {
        if start == count { return Fault(.emptyRecord, .record, at: start) }
        if count >= 3, byte(0) == 0xEF, byte(1) == 0xBB, byte(2) == 0xBF {
            return Fault(.byteOrderMark, .record, at: 0)
        }
        return wrongTypeFault(start, .record)
    }

    /// Throws if anything but white space follows the record's object, which ends at `position`.
    @inline(__always)
    func requireRecordEnd(_ position: Int) throws(Fault) {
        let end = skipWhitespace(position)
        guard end == count else { throw Fault(.trailingBytes, .record, at: end) }
    }

    /// Reads a name: a string that is not empty and contains no control character. Its text has at most `bytesMax`
    /// bytes after the escapes are decoded. Any other value is a fault.
    @inline(__always)
    func readName(_ position: Int, atMost bytesMax: Int, _ field: Field) throws(Fault) -> JSONStringRange {
        let string = try readString(position, field)
        let isName = string.isPrintableASCII && !string.isEmpty && string.end &- string.start <= bytesMax
        if !isName { try requireValidName(string, atMost: bytesMax, field) }
        return string
    }

    /// Throws if a string, which may have escapes, is not a valid name. Control characters are Unicode's category Cc:
    /// U+0000 to U+001F and U+007F to U+009F.
    @inline(never)
    private func requireValidName(_ string: JSONStringRange, atMost bytesMax: Int, _ field: Field) throws(Fault) {
        var length = 0
        var previousByte: UInt8 = 0
        for byte in UnescapedBytes(bytes(string.range)) {
            let isControl = byte < 0x20 || byte == 0x7F || previousByte == 0xC2 && byte <= 0x9F
            guard !isControl else { throw Fault(.invalidCharacter, field, at: string.start &- 1) }
            previousByte = byte
            length &+= 1
        }
        guard length > 0 else { throw Fault(.emptyText, field, at: string.start &- 1) }
        guard length <= bytesMax else { throw Fault(.tooLong, field, at: string.start &- 1, valueAboveLimit: length) }
    }

    @inline(__always)
    func readToken(_ position: Int, _ field: Field) throws(Fault) -> JSONStringRange {
        let string = try readString(position, field)
        guard DeviceToken.isValid(bytes(string.range)) else { throw Fault(.invalidHexadecimal, field, at: position) }
        return string
    }

    /// Reads a policy's name. Such a name consists of letters, digits, `-` and `_`, so a string with escapes is
    /// refused.
    func readPolicyName(_ position: Int, _ field: Field) throws(Fault) -> JSONStringRange {
        let string = try readString(position, field)
        let name = bytes(string.range)
        guard !name.isEmpty else { throw Fault(.emptyText, field, at: position) }
        guard name.count <= Limits.policyNameBytesMax else {
            throw Fault(.tooLong, field, at: position, valueAboveLimit: name.count)
        }
        let isName = name.allSatisfy { byte in
            let letter = byte | 0x20
            return (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(letter)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
        }
        guard isName else { throw Fault(.invalidCharacter, field, at: position) }
        return string
    }

    @inline(__always)
    func readEnvironment(_ position: Int, _ field: Field) throws(Fault) -> (APNsEnvironment, next: Int) {
        let string = try readString(position, field)
        if isEqual(string, to: "production") { return (.production, string.nextPosition) }
        if isEqual(string, to: "sandbox") { return (.sandbox, string.nextPosition) }
        throw Fault(.unknownValue, field, at: position)
    }

    /// Whether a JSON string, after its escapes are decoded, is this word.
    @inline(__always)
    func isEqual(_ string: JSONStringRange, to word: StaticString) -> Bool {
        if !string.isEscaped { return equals(bytes(string.range), word) }
        return haveEqualUnescapedBytes(
            bytes(string.range),
            UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
        )
    }

    func readBoolean(_ position: Int, _ field: Field) throws(Fault) -> (value: Bool, next: Int) {
        guard position < count else { throw unexpectedByteFault(position, field) }
        switch byte(position) {
        case UInt8(ascii: "t"): return (true, try skipLiteral("true", position, field))
        case UInt8(ascii: "f"): return (false, try skipLiteral("false", position, field))
        default: throw wrongTypeFault(position, field)
        }
    }

    /// Validates an object without interpreting it, and returns the position after it. Throws for any other value.
    ///
    /// - Parameter depth: the number of open containers around the object.
    @inline(__always)
    func skipObject(_ position: Int, depth: Int, _ field: Field) throws(Fault) -> Int {
        guard position < count, byte(position) == UInt8(ascii: "{") else { throw wrongTypeFault(position, field) }
        return try skipValue(position, depth: depth, field)
    }

    /// Reads an array, and each of its elements with `readElement`, which returns the position after the element.
    ///
    /// - Returns: the position after the array, and the number of elements.
    func readArray(
        _ start: Int,
        _ field: Field,
        _ readElement: (_ position: Int) throws(Fault) -> Int
    ) throws(Fault) -> (next: Int, elementCount: Int) {
        guard start < count, byte(start) == UInt8(ascii: "[") else { throw wrongTypeFault(start, field) }
        var position = skipWhitespace(start &+ 1)
        if position < count, byte(position) == UInt8(ascii: "]") { return (position &+ 1, 0) }
        var elementCount = 0
        while true {
            position = skipWhitespace(try readElement(position))
            elementCount &+= 1
            guard position < count else { throw unexpectedByteFault(position, field) }
            if byte(position) == UInt8(ascii: "]") { return (position &+ 1, elementCount) }
            guard byte(position) == UInt8(ascii: ",") else { throw unexpectedByteFault(position, field) }
            position = skipWhitespace(position &+ 1)
        }
    }
}
