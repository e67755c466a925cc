/// Reads the members of a JSON object one by one.
///
/// ``next(in:_:)`` reads a key. The caller then reads the value, which begins at ``position``, and sets ``position`` to
/// the byte after the value. ``UnknownKeyRule`` says what happens to keys that the caller does not know.
struct JSONMembers {
    enum UnknownKeyRule {
        /// Unknown keys are refused with a fault that names the key.
        case refused
        /// Unknown keys belong to Apple's format and are passed on to APNs. But more than
        /// ``Limits/unknownKeysPerObjectMax`` of them, or two equal ones, are a fault.
        case passedOn
        /// Unknown keys belong to the app. They are passed on to APNs and not checked.
        case unchecked
    }

    private let objectField: Field
    private let unknownKeyRule: UnknownKeyRule
    private let objectStart: Int
    private var isBeforeFirstKey = true
    private var unknownKeyCount = 0
    /// One bit for each field whose key has been read.
    private var seenFieldBits: UInt64 = 0
    /// The position of the next byte to read.
    var position: Int
    /// The position of the opening quote of the key that was read last.
    private(set) var keyPosition = 0

    /// - Parameter position: the position at which the opening brace must be; any other byte there is a fault.
    @inline(__always)
    init(_ text: JSONText, at position: Int, of objectField: Field, unknownKeys rule: UnknownKeyRule) throws(Fault) {
        guard position < text.count, text.byte(position) == UInt8(ascii: "{") else {
            throw text.wrongTypeFault(position, objectField)
        }
        self.objectField = objectField
        unknownKeyRule = rule
        self.objectStart = position
        self.position = position &+ 1
    }

    @inline(__always)
    func has(_ field: Field) -> Bool { seenFieldBits & field.bit != 0 }

    /// Reads the next key.
    ///
    /// - Parameter findField: returns the field that a key names; nil for an unknown key.
    /// - Returns: the field whose value is at ``position``; or one of these:
    ///   - for an unknown key that is not refused: the field of the whole object, such as `payload`.
    ///   - at the end of the object: nil. ``position`` is then after the closing brace.
    @inline(__always)
    mutating func next(
        in text: JSONText,
        _ findField: (UnsafeRawBufferPointer) -> Field?
    ) throws(Fault) -> Field? {
        var nextByte = text.peek(position)
        if nextByte <= 0x20 {
            position = text.skipWhitespace(position)
            nextByte = text.peek(position)
        }
        if nextByte == UInt8(ascii: "}") {
            position &+= 1
            if unknownKeyCount > 1 { try refuseDuplicateKeys(text) }
            return nil
        }
        if !isBeforeFirstKey {
            guard nextByte == UInt8(ascii: ",") else { throw text.unexpectedByteFault(position, objectField) }
            position = text.skipWhitespace(position &+ 1)
        }
        isBeforeFirstKey = false
        guard text.peek(position) == UInt8(ascii: "\"") else { throw text.unexpectedByteFault(position, objectField) }
        let key = try text.readString(position, objectField)
        keyPosition = position
        position = try text.skipColon(key.nextPosition, objectField)
        let field =
            key.isEscaped
            ? JSONMembers.fieldOfEscapedKey(text.bytes(key.range), findField) : findField(text.bytes(key.range))
        guard let field else {
            try applyUnknownKeyRule(key)
            return objectField
        }
        guard seenFieldBits & field.bit == 0 else { throw Fault(.duplicateKey, field, at: keyPosition) }
        seenFieldBits |= field.bit
        return field
    }

    @inline(__always)
    private mutating func applyUnknownKeyRule(_ key: JSONStringRange) throws(Fault) {
        switch unknownKeyRule {
        case .refused:
            throw Fault(.unknownKey, FieldPath(field: objectField, unknownKey: key.range), at: keyPosition)
        case .passedOn:
            unknownKeyCount &+= 1
            guard unknownKeyCount <= Limits.unknownKeysPerObjectMax else {
                throw Fault(.tooMany, objectField, at: keyPosition, valueAboveLimit: unknownKeyCount)
            }
        case .unchecked:
            break
        }
    }

    /// Returns the field of a key that has escapes; nil if the key is unknown. A key longer than
    /// ``Limits/unescapedKeyBufferBytes`` is always unknown.
    @inline(never)
    private static func fieldOfEscapedKey(
        _ key: UnsafeRawBufferPointer,
        _ findField: (UnsafeRawBufferPointer) -> Field?
    ) -> Field? {
        withUnsafeTemporaryAllocation(byteCount: Limits.unescapedKeyBufferBytes, alignment: 1) { target in
            var byteCount = 0
            for byte in UnescapedBytes(key) {
                guard byteCount < target.count else { return nil }
                target[byteCount] = byte
                byteCount &+= 1
            }
            return findField(UnsafeRawBufferPointer(rebasing: target[..<byteCount]))
        }
    }

    /// Throws if two unknown keys of the object are equal. Equal known keys need no check, because ``next(in:_:)`` has
    /// refused them.
    @inline(never)
    private func refuseDuplicateKeys(_ text: JSONText) throws(Fault) {
        // All keys of the object fit, because ``next(in:_:)`` has limited the number of unknown keys.
        let keysMax = Limits.unknownKeysPerObjectMax + Field.allCases.count
        let duplicate = withUnsafeTemporaryAllocation(of: ByteRange.self, capacity: keysMax) { keys in
            var keyCount = 0
            var position = objectStart &+ 1
            while keyCount < keysMax, let (key, nextPosition) = readMember(text, at: position) {
                for earlier in keys[..<keyCount] where haveEqualUnescapedBytes(text.bytes(earlier), text.bytes(key)) {
                    return key
                }
                keys[keyCount] = key
                keyCount &+= 1
                position = nextPosition
            }
            return ByteRange.absent
        }
        guard duplicate.isAbsent else {
            let path = FieldPath(field: objectField, unknownKey: duplicate)
            throw Fault(.duplicateKey, path, at: Int(duplicate.offset) &- 1)
        }
    }

    /// Returns the key of the member at `position`, and the position of the next member; nil at the end of the object.
    /// The object has been read before, so it is well formed.
    private func readMember(_ text: JSONText, at position: Int) -> (key: ByteRange, nextPosition: Int)? {
        let keyPosition = text.skipWhitespace(position)
        guard keyPosition < text.count, text.byte(keyPosition) == UInt8(ascii: "\""),
            let key = try? text.readString(keyPosition, objectField),
            let valuePosition = try? text.skipColon(key.nextPosition, objectField),
            let end = try? text.skipValue(valuePosition, depth: 0, objectField)
        else { return nil }
        let next = text.skipWhitespace(end)
        let isLast = next < text.count && text.byte(next) == UInt8(ascii: "}")
        return (key.range, isLast ? next : next &+ 1)
    }
}

extension Field {
    @inline(__always)
    var bit: UInt64 { 1 &<< UInt64(rawValue) }
}
