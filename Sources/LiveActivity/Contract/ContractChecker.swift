import Glibc

/// Compares a value of a record with its shape, in one pass over the bytes.
///
/// The rules are those of a `JSONDecoder` with default strategies, for types with a synthesized `init(from:)`:
/// - Unknown keys are ignored. If a key occurs twice, the first one is read.
/// - An optional field may be missing or null.
/// - A whole number may be written `2.0` or `2e3`.
///
/// The record has been decoded before, so its JSON is valid; only ``endOfUnvalidatedValue(_:_:)`` reads bytes that may
/// be invalid. The recursion is at most ``Limits/shapeDepthMax`` deep, because it follows the shape.
struct ContractChecker {
    let contract: UnmanagedContract
    let text: JSONText
    /// Receives the places of the state's values; nil if they are not needed. A later state that differs only in these
    /// values is then read faster (``RecentStateTemplates``).
    let template: UnsafeMutablePointer<StateTemplate>?

    @inline(__always)
    private func mismatch(_ problem: ContractMismatch.Problem, _ nodeIndex: Int, _ position: Int) -> ContractMismatch {
        ContractMismatch(problem: problem, nodeIndex: nodeIndex, offset: position, fittingPartEnd: position)
    }

    /// Compares the value at `position` with the node's shape.
    ///
    /// - Returns: the position after the value.
    func checkValue(_ nodeIndex: Int, _ position: Int) throws(ContractMismatch) -> Int {
        let shape = contract.nodes + nodeIndex
        let firstByte = text.peek(position)
        if firstByte == UInt8(ascii: "n") {
            guard shape.pointee.isOptional || shape.pointee.kind == .any else {
                throw mismatch(.wrongType, nodeIndex, position)
            }
            return position &+ 4
        }
        switch shape.pointee.kind {
        case .any: return try skipValue(position, nodeIndex)
        case .string: return try readString(position, nodeIndex).nextPosition
        case .bool:
            if firstByte == UInt8(ascii: "t") { return position &+ 4 }
            if firstByte == UInt8(ascii: "f") { return position &+ 5 }
            throw mismatch(.wrongType, nodeIndex, position)
        case .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64:
            return try readInteger(shape.pointee.kind, position, nodeIndex).next
        case .double, .float, .decimal, .date: return try checkNumber(shape.pointee.kind, position, nodeIndex)
        case .dateRange: return try checkDateRange(position, nodeIndex)
        case .url, .data, .uuid: return try checkFormattedText(shape.pointee.kind, position, nodeIndex)
        case .stringEnum: return try checkStringEnum(shape.pointee, position, nodeIndex)
        case .numberEnum: return try checkNumberEnum(shape.pointee, position, nodeIndex)
        case .array: return try checkArray(Int(shape.pointee.firstChild), position, nodeIndex)
        case .dictionary: return try checkDictionary(Int(shape.pointee.firstChild), position, nodeIndex)
        case .object: return try checkObject(shape, position, nodeIndex)
        }
    }

    @inline(__always)
    func skipValue(_ position: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int {
        guard let next = try? text.skipValue(position, depth: 0, .contentState) else {
            throw mismatch(.wrongType, nodeIndex, position)
        }
        return next
    }

    @inline(__always)
    func readString(_ position: Int, _ nodeIndex: Int) throws(ContractMismatch) -> JSONStringRange {
        guard text.peek(position) == UInt8(ascii: "\""), let string = try? text.readString(position, .contentState)
        else {
            throw mismatch(.wrongType, nodeIndex, position)
        }
        return string
    }

    // MARK: - Objects and arrays

    /// Returns the position of the next member or element; nil at the end of the container. `start` is the position
    /// after the previous member or element.
    @inline(__always)
    private func nextMemberPosition(_ start: Int, closing: UInt8, _ nodeIndex: Int) throws(ContractMismatch) -> Int? {
        let position = text.peek(start) > 0x20 ? start : text.skipWhitespace(start)
        let byte = text.peek(position)
        if byte == UInt8(ascii: ",") { return text.skipWhitespace(position &+ 1) }
        guard byte == closing else { throw mismatch(.wrongType, nodeIndex, position) }
        return nil
    }

    /// Returns the position after a container whose last value ends at `position`.
    @inline(__always)
    private func containerEnd(_ position: Int) -> Int { text.skipWhitespace(position) &+ 1 }

    /// Returns the position of the first member or element of the container at `position`; nil if the container is
    /// empty. Throws if the byte at `position` is not `opening`.
    @inline(__always)
    private func firstMemberPosition(_ position: Int, _ opening: UInt8, _ nodeIndex: Int) throws(ContractMismatch)
        -> Int?
    {
        guard text.peek(position) == opening else { throw mismatch(.wrongType, nodeIndex, position) }
        let inside = text.skipWhitespace(position &+ 1)
        // In ASCII, "}" and "]" are two above "{" and "[". So `opening + 2` closes an empty container.
        return text.peek(inside) == opening &+ 2 ? nil : inside
    }

    @inline(__always)
    private func readKey(_ position: Int, _ nodeIndex: Int) throws(ContractMismatch) -> (
        JSONStringRange, valuePosition: Int
    ) {
        let key = try readString(position, nodeIndex)
        guard let valuePosition = try? text.skipColon(key.nextPosition, .contentState) else {
            throw mismatch(.wrongType, nodeIndex, position)
        }
        return (key, valuePosition)
    }

    /// Checks an object's known fields, and returns the position after the object. Throws if a required field is
    /// missing.
    private func checkObject(
        _ shape: UnsafePointer<ShapeNode>,
        _ start: Int,
        _ nodeIndex: Int
    ) throws(ContractMismatch) -> Int {
        let (firstChild, childCount) = (Int(shape.pointee.firstChild), Int(shape.pointee.childCount))
        var seenFields = FieldSet()
        var end = start &+ 1
        var lastKnownFieldEnd = start
        var expectedField = 0
        var nextPosition = try firstMemberPosition(start, UInt8(ascii: "{"), nodeIndex)
        while let position = nextPosition {
            var field = expectedField
            let valuePosition: Int
            if expectedField < childCount, hasName(contract.nodes + (firstChild &+ expectedField), position),
                let next = try? text.skipColon(
                    position &+ Int(contract.nodes[firstChild &+ expectedField].nameByteCount) &+ 2,
                    .contentState
                )
            {
                valuePosition = next
            } else {
                let key = try readKey(position, nodeIndex)
                valuePosition = key.valuePosition
                field = self.fieldIndex(firstChild, childCount, key.0, expectedField)
            }
            if field >= 0, seenFields.insert(field) {
                end = try checkFieldValue(ofNode: firstChild &+ field, at: valuePosition)
                lastKnownFieldEnd = end
                expectedField = field &+ 1
            } else {
                end = try skipValue(valuePosition, nodeIndex)
            }
            nextPosition = try nextMemberPosition(end, closing: UInt8(ascii: "}"), nodeIndex)
        }
        if let missing = shape.pointee.requiredFields.first(notIn: seenFields) {
            let missingNodeIndex = firstChild &+ missing
            throw ContractMismatch(
                problem: .missing,
                nodeIndex: missingNodeIndex,
                offset: start,
                fittingPartEnd: lastKnownFieldEnd
            )
        }
        return self.containerEnd(end)
    }

    /// Checks a field's value, adds the value's place to ``template``, and returns the position after the value. An
    /// object gets no place, because the values of its fields have places. But `null` instead of an object gets a
    /// place.
    @inline(__always)
    func checkFieldValue(ofNode nodeIndex: Int, at position: Int) throws(ContractMismatch) -> Int {
        let shape = contract.nodes + nodeIndex
        let precedingCount = template?.pointee.valuePlaceCount ?? 0
        let end: Int
        if let shortValueEnd = endOfShortValue(shape, position) {
            end = shortValueEnd
        } else {
            end = try checkValue(nodeIndex, position)
        }
        if let template, shape.pointee.kind != .object || text.byte(position) == UInt8(ascii: "n") {
            template.pointee.addValuePlace(nodeIndex, position, end, after: precedingCount)
        }
        return end
    }

    /// Checks a field's value in bytes that have not been validated, and returns the position after the value. The
    /// result is nil in any of these cases, and the decoder must then read the whole state:
    /// - The value is not valid JSON.
    /// - The value does not fit its shape.
    /// - The value is too long for a body, or may be nested too deeply.
    func endOfUnvalidatedValue(_ nodeIndex: Int, _ position: Int) -> Int? {
        let shape = contract.nodes + nodeIndex
        let firstByte = text.peek(position)
        if let end = endOfShortValue(shape, position) {
            // JSON does not allow 0 as the first of several digits. Check this rule here, because `endOfShortValue`
            // does not.
            return firstByte == UInt8(ascii: "0") && end > position &+ 1 ? nil : end
        }
        let validEnd: Int?
        switch firstByte {
        // `checkValue` validates a string itself.
        case UInt8(ascii: "\""): return try? checkValue(nodeIndex, position)
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
            validEnd = try? text.skipNumber(position, .contentState)
        // `depth` is the largest number of containers that may be around the value: the record, Apple's dictionary, and
        // the shape's objects and arrays. With it, `skipValue` accepts no value that is nested too deeply for a record.
        default: validEnd = try? text.skipValue(position, depth: 2 &+ Limits.shapeDepthMax, .contentState)
        }
        // A value that is too long for a body is not checked: if a dictionary has many repeated keys, the time for its
        // check grows with the square of their number.
        guard let validEnd, validEnd &- position <= Limits.broadcastBodyBytesMax,
            let end = try? checkValue(nodeIndex, position),
            end == validEnd
        else { return nil }
        return end
    }

    /// True only if the key at `position` is this field's name. May be false for the name too: if the key has an
    /// escape, or is near the end of the record. So after false, the caller searches with ``fieldIndex(_:_:_:_:)``.
    @inline(__always)
    private func hasName(_ field: UnsafePointer<ShapeNode>, _ position: Int) -> Bool {
        guard text.count &- position > 9 &+ Int(field.pointee.nameByteCount), field.pointee.nameBeginningMask != 0,
            (text.eightBytes(position &+ 1) ^ field.pointee.nameBeginning) & field.pointee.nameBeginningMask == 0
        else { return false }
        let nameByteCount = Int(field.pointee.nameByteCount)
        guard nameByteCount >= 8 else { return true }
        let (start, end) = (position &+ 1, position &+ 1 &+ nameByteCount)
        return text.byte(end) == UInt8(ascii: "\"")
            && memcmp(text.base + start, contract.textStart + Int(field.pointee.nameOffset), nameByteCount) == 0
    }

    /// Checks quickly the most common values: short strings without escapes, and short whole numbers. Returns the
    /// position after the value.
    ///
    /// The result is nil for any other value, and near the end of the record, where eight bytes cannot be read at once.
    /// The caller then uses ``checkValue(_:_:)``.
    @inline(__always)
    private func endOfShortValue(_ shape: UnsafePointer<ShapeNode>, _ position: Int) -> Int? {
        switch shape.pointee.kind {
        case .string:
            guard text.count &- position > 16, text.byte(position) == UInt8(ascii: "\"") else { return nil }
            let topBits = nonPlainByteMask(text.eightBytes(position &+ 1))
            let end = position &+ 1 &+ (topBits.trailingZeroBitCount &>> 3)
            return topBits != 0 && text.byte(end) == UInt8(ascii: "\"") ? end &+ 1 : nil
        case .int64, .uint64, .double, .date:
            guard text.count &- position > 16 else { return nil }
            var end = position
            while end &- position < 10, text.byte(end) &- UInt8(ascii: "0") < 10 { end &+= 1 }
            let nextByte = text.byte(end)
            let isValueEnd = nextByte == UInt8(ascii: ",") || nextByte == UInt8(ascii: "}") || nextByte <= 0x20
            return isValueEnd && end > position ? end : nil
        default: return nil
        }
    }

    /// Returns the index of the field with this key; -1 if there is none. Searches from the field `expected` on: the
    /// field after the one that was found last, because most producers always write fields in the same order.
    @inline(never)
    private func fieldIndex(_ firstChild: Int, _ childCount: Int, _ key: JSONStringRange, _ expected: Int) -> Int {
        let bytes = text.bytes(key.range)
        var field = expected
        for _ in 0..<childCount {
            if field >= childCount { field = 0 }
            let name = contract.name(of: firstChild &+ field)
            if key.isEscaped ? haveEqualBytes(name, unescaping: bytes) : haveEqualBytes(name, bytes) { return field }
            field &+= 1
        }
        return -1
    }

    private func checkArray(_ elementNodeIndex: Int, _ start: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int {
        var end = start &+ 1
        var nextPosition = try firstMemberPosition(start, UInt8(ascii: "["), nodeIndex)
        while let position = nextPosition {
            end = try checkValue(elementNodeIndex, position)
            nextPosition = try nextMemberPosition(end, closing: UInt8(ascii: "]"), nodeIndex)
        }
        return self.containerEnd(end)
    }

    private func checkDictionary(_ elementNodeIndex: Int, _ start: Int, _ nodeIndex: Int) throws(ContractMismatch)
        -> Int
    {
        var end = start &+ 1
        var nextPosition = try firstMemberPosition(start, UInt8(ascii: "{"), nodeIndex)
        while let position = nextPosition {
            let (key, valuePosition) = try readKey(position, nodeIndex)
            do throws(ContractMismatch) {
                end = try self.checkValue(elementNodeIndex, valuePosition)
            } catch {
                guard hasMember(key, ofObjectAt: start, before: position) else { throw error }
                end = try skipValue(valuePosition, nodeIndex)
            }
            nextPosition = try nextMemberPosition(end, closing: UInt8(ascii: "}"), nodeIndex)
        }
        return self.containerEnd(end)
    }

    /// Whether the object has the same key before the position `end`. `JSONDecoder` reads only the first value of a
    /// repeated key, so its other values need not fit their shape.
    private func hasMember(_ key: JSONStringRange, ofObjectAt start: Int, before end: Int) -> Bool {
        var position = text.skipWhitespace(start &+ 1)
        while position < end {
            guard let earlierKey = try? text.readString(position, .contentState),
                let valuePosition = try? text.skipColon(earlierKey.nextPosition, .contentState),
                let next = try? text.skipValue(valuePosition, depth: 0, .contentState)
            else { return false }
            if haveEqualUnescapedBytes(text.bytes(earlierKey.range), text.bytes(key.range)) { return true }
            position = text.skipWhitespace(text.skipWhitespace(next) &+ 1)
        }
        return false
    }

    /// Checks an array of two dates in order, and returns the position after the array. Like `JSONDecoder`, ignores
    /// further elements.
    private func checkDateRange(_ start: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int {
        guard let lowerPosition = try firstMemberPosition(start, UInt8(ascii: "["), nodeIndex) else {
            throw mismatch(.wrongType, nodeIndex, start)
        }
        let lowerEnd = try checkNumber(.date, lowerPosition, nodeIndex)
        guard let upperPosition = try nextMemberPosition(lowerEnd, closing: UInt8(ascii: "]"), nodeIndex) else {
            throw mismatch(.wrongType, nodeIndex, start)
        }
        let upperEnd = try checkNumber(.date, upperPosition, nodeIndex)
        guard readDouble(lowerPosition, lowerEnd) <= readDouble(upperPosition, upperEnd) else {
            throw mismatch(.boundsOutOfOrder, nodeIndex, start)
        }
        return try skipValue(start, nodeIndex)
    }

    // MARK: - Strings

    private func checkStringEnum(_ shape: ShapeNode, _ position: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int
    {
        let string = try readString(position, nodeIndex)
        let bytes = text.bytes(string.range)
        for caseIndex in Int(shape.firstChild)..<Int(shape.firstChild) &+ Int(shape.childCount) {
            let rawValue = contract.text(contract.rawValues[caseIndex].offset, contract.rawValues[caseIndex].count)
            if string.isEscaped ? haveEqualBytes(rawValue, unescaping: bytes) : haveEqualBytes(rawValue, bytes) {
                return string.nextPosition
            }
        }
        throw mismatch(.notOneOfTheCases, nodeIndex, position)
    }

    /// Checks a string from which Foundation makes a `URL`, a `UUID` or `Data`.
    private func checkFormattedText(_ kind: ShapeKind, _ position: Int, _ nodeIndex: Int) throws(ContractMismatch)
        -> Int
    {
        let string = try readString(position, nodeIndex)
        let bytes = text.bytes(string.range)
        let isValid =
            switch kind {
            // Foundation percent-encodes what a URL must not contain. So every text counts as a URL, except an empty
            // one.
            case .url: !string.isEmpty
            case .uuid: FoundationTextForms.isUUID(UnescapedBytes(bytes))
            default: FoundationTextForms.isBase64(UnescapedBytes(bytes))
            }
        guard isValid else { throw mismatch(.wrongForm, nodeIndex, position) }
        return string.nextPosition
    }
}
