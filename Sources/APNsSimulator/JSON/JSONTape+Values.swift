import Glibc

extension JSONTape {
    /// Returns the bytes of a value as they are in the text. The quotes of a string are left out.
    func bytes(_ index: Int) -> UnsafeRawBufferPointer {
        let value = self[index]
        return UnsafeRawBufferPointer(rebasing: text[Int(value.start)..<Int(value.end)])
    }

    /// Returns the index of a key's value in the object at the index `object`. Returns nil if the key is missing, or
    /// if the value at `object` is no JSON object. If a key occurs twice, the first counts, as in Foundation's
    /// decoder.
    func member(_ key: UnsafeRawBufferPointer, of object: Int) -> Int? {
        guard self[object].kind == .object else { return nil }
        let end = Int(self[object].nextIndex)
        var index = object + 1
        while index < end {
            if stringEquals(index, key) { return index + 1 }
            index = Int(self[index + 1].nextIndex)
        }
        return nil
    }

    func member(_ key: StaticString, of object: Int) -> Int? {
        member(UnsafeRawBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount), of: object)
    }

    /// Calls the body for every key of an object, with the indices of the key and its value.
    func forEachMember<Failure: Error>(
        of object: Int,
        _ body: (_ key: Int, _ value: Int) throws(Failure) -> Void
    ) throws(Failure) {
        let end = Int(self[object].nextIndex)
        var index = object + 1
        while index < end {
            try body(index, index + 1)
            index = Int(self[index + 1].nextIndex)
        }
    }

    func forEachElement<Failure: Error>(of array: Int, _ body: (_ element: Int) throws(Failure) -> Void) throws(Failure)
    {
        let end = Int(self[array].nextIndex)
        var index = array + 1
        while index < end {
            try body(index)
            index = Int(self[index].nextIndex)
        }
    }

    /// Returns the number of an object's keys, or of an array's elements.
    func childCount(_ container: Int) -> Int {
        var count = 0
        if self[container].kind == .object {
            forEachMember(of: container) { _, _ in count += 1 }
        } else {
            forEachElement(of: container) { _ in count += 1 }
        }
        return count
    }

    /// Whether a string's value is exactly these UTF-8 bytes.
    func stringEquals(_ index: Int, _ expected: UnsafeRawBufferPointer) -> Bool {
        guard self[index].hasEscapes else { return isEqual(bytes(index), expected) }
        return string(index).utf8.elementsEqual(expected)
    }

    /// Returns a string's value, with escapes resolved.
    func string(_ index: Int) -> String {
        let raw = bytes(index)
        guard self[index].hasEscapes else { return String(decoding: raw, as: UTF8.self) }
        var units: [UInt8] = []
        units.reserveCapacity(raw.count)
        var offset = 0
        while offset < raw.count {
            guard raw[offset] == UInt8(ascii: "\\") else {
                units.append(raw[offset])
                offset += 1
                continue
            }
            switch raw[offset + 1] {
            case UInt8(ascii: "b"): units.append(0x08)
            case UInt8(ascii: "f"): units.append(0x0C)
            case UInt8(ascii: "n"): units.append(0x0A)
            case UInt8(ascii: "r"): units.append(0x0D)
            case UInt8(ascii: "t"): units.append(0x09)
            case UInt8(ascii: "u"):
                offset = appendEscapedScalar(raw, at: offset, to: &units)
                continue
            default: units.append(raw[offset + 1])
            }
            offset += 2
        }
        return String(decoding: units, as: UTF8.self)
    }

    /// Appends the character of a `\u` escape, or of the two escapes of a surrogate pair. Returns the offset
    /// after the escape. The scanner has checked that both halves of a pair exist.
    private func appendEscapedScalar(_ raw: UnsafeRawBufferPointer, at offset: Int, to units: inout [UInt8]) -> Int {
        func unit(_ start: Int) -> UInt32 {
            (0..<4).reduce(0) { $0 << 4 | UInt32(hexDigitValue(raw[start + $1]) ?? 0) }
        }
        let first = unit(offset + 2)
        let isPair = first & 0xFC00 == 0xD800
        let scalar = isPair ? 0x10000 + ((first & 0x3FF) << 10 | unit(offset + 8) & 0x3FF) : first
        units.append(contentsOf: String(Character(Unicode.Scalar(scalar) ?? "\u{FFFD}")).utf8)
        return offset + (isPair ? 12 : 6)
    }

    /// Returns a number as a Double; nil if the value is no number or is too large.
    func double(_ index: Int) -> Double? {
        guard self[index].kind == .number else { return nil }
        if let integer = plainInteger(index) { return Double(integer) }
        let raw = bytes(index)
        // `strtod` needs a terminated string, so copy the number. The copy of a number of usual length is on the stack.
        return withUnsafeTemporaryAllocation(byteCount: raw.count + 1, alignment: 1) { copy -> Double? in
            copy.copyMemory(from: raw)
            copy[raw.count] = 0
            guard let start = copy.baseAddress else { return nil }
            let value = strtod(start.assumingMemoryBound(to: CChar.self), nil)
            return value.isFinite ? value : nil
        }
    }

    /// Returns a whole number in any notation (`3`, `3.0`, `30e-1`), as `JSONDecoder` reads an `Int`. Returns nil if
    /// the value is not a whole number or does not fit an `Int64`.
    func integer(_ index: Int) -> Int64? {
        guard self[index].kind == .number else { return nil }
        if let plain = plainInteger(index) { return plain }
        let raw = bytes(index)
        if raw.allSatisfy({ $0 == UInt8(ascii: "-") || $0 &- UInt8(ascii: "0") < 10 }) {
            return Int64(String(decoding: raw, as: UTF8.self))
        }
        return double(index).flatMap { Int64(exactly: $0) }
    }

    /// Returns a whole number of at most 18 digits that has no decimal point and no exponent. Returns nil for any other
    /// number.
    private func plainInteger(_ index: Int) -> Int64? {
        let raw = bytes(index)
        guard raw.first == UInt8(ascii: "-") else { return parseUnsignedDecimal(raw) }
        // "-0" becomes the integer 0.
        return parseUnsignedDecimal(UnsafeRawBufferPointer(rebasing: raw.dropFirst())).map { -$0 }
    }
}

/// Whether two JSON values are equal: objects regardless of the order of their keys, numbers by value.
func isSameJSON(
    _ left: borrowing JSONTape,
    at leftIndex: Int,
    _ right: borrowing JSONTape,
    at rightIndex: Int
) -> Bool {
    if left[leftIndex].kind == right[rightIndex].kind, isEqual(left.bytes(leftIndex), right.bytes(rightIndex)) {
        return true
    }
    switch (left[leftIndex].kind, right[rightIndex].kind) {
    case (.object, .object):
        guard left.childCount(leftIndex) == right.childCount(rightIndex) else { return false }
        var index = leftIndex + 1
        while index < Int(left[leftIndex].nextIndex) {
            var key = left.string(index)
            let found = key.withUTF8 { right.member(UnsafeRawBufferPointer($0), of: rightIndex) }
            guard let found, isSameJSON(left, at: index + 1, right, at: found) else { return false }
            index = Int(left[index + 1].nextIndex)
        }
        return true
    case (.array, .array):
        guard left.childCount(leftIndex) == right.childCount(rightIndex) else { return false }
        var (leftElement, rightElement) = (leftIndex + 1, rightIndex + 1)
        while leftElement < Int(left[leftIndex].nextIndex) {
            guard isSameJSON(left, at: leftElement, right, at: rightElement) else { return false }
            (leftElement, rightElement) = (Int(left[leftElement].nextIndex), Int(right[rightElement].nextIndex))
        }
        return true
    case (.string, .string):
        return left.string(leftIndex) == right.string(rightIndex)
    case (.number, .number):
        if let leftInteger = left.integer(leftIndex), let rightInteger = right.integer(rightIndex) {
            return leftInteger == rightInteger
        }
        guard let leftNumber = left.double(leftIndex), let rightNumber = right.double(rightIndex) else { return false }
        return leftNumber == rightNumber
    default:
        return false
    }
}
