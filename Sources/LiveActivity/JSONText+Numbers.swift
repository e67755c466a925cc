extension JSONText {
    /// Numbers with at most this many digits always fit into `Int64`.
    private static let digitsFittingInt64Max = 18

    /// Reads up to ``digitsFittingInt64Max`` digits at `start`. Returns their value, and the position after them.
    @inline(__always)
    private func readLeadingDigits(_ start: Int) -> (value: UInt64, next: Int) {
        let end = min(count, start &+ JSONText.digitsFittingInt64Max)
        var position = start
        var value: UInt64 = 0
        while position < end {
            let digit = byte(position) &- UInt8(ascii: "0")
            guard digit < 10 else { break }
            value = value &* 10 &+ UInt64(digit)
            position &+= 1
        }
        return (value, position)
    }

    /// Reads an integer without sign, fraction or exponent. Throws `truncated` if the record ends after the digits: an
    /// integer is always inside an object, whose closing brace is then missing.
    @inline(__always)
    func readUnsignedInteger(_ start: Int, _ field: Field) throws(Fault) -> (value: UInt64, next: Int) {
        guard start < count, byte(start) &- UInt8(ascii: "0") < 10 else {
            throw negativeOrWrongTypeFault(start, field)
        }
        var (value, position) = readLeadingDigits(start)
        if position &- start == JSONText.digitsFittingInt64Max {
            while position < count, byte(position) &- UInt8(ascii: "0") < 10 {
                let (product, hasProductOverflowed) = value.multipliedReportingOverflow(by: 10)
                let (sum, hasSumOverflowed) = product.addingReportingOverflow(
                    UInt64(byte(position) &- UInt8(ascii: "0"))
                )
                guard !hasProductOverflowed, !hasSumOverflowed else { throw Fault(.outOfRange, field, at: start) }
                value = sum
                position &+= 1
            }
        }
        // A number with more than one digit must not begin with 0 (RFC 8259 §6).
        guard byte(start) != UInt8(ascii: "0") || position == start &+ 1 else {
            throw Fault(.notJSON, field, at: start &+ 1)
        }
        guard position < count else { throw Fault(.truncated, field, at: position) }
        guard byte(position) != UInt8(ascii: "."), byte(position) | 0x20 != UInt8(ascii: "e") else {
            throw Fault(.wrongType, field, at: start)
        }
        return (value, position)
    }

    /// Reads an integer. Throws if it is not between the two bounds, neither of which is negative.
    @inline(__always)
    func readInteger(
        _ position: Int,
        from lowerBound: Int64,
        to upperBound: Int64,
        _ field: Field
    ) throws(Fault) -> (value: Int64, next: Int) {
        let (value, next) = try readUnsignedInteger(position, field)
        guard let value = Int64(exactly: value), value >= lowerBound, value <= upperBound else {
            throw Fault(.outOfRange, field, at: position)
        }
        return (value, next)
    }

    @inline(never)
    private func negativeOrWrongTypeFault(_ position: Int, _ field: Field) -> Fault {
        guard position < count, byte(position) == UInt8(ascii: "-") else { return wrongTypeFault(position, field) }
        return Fault(.outOfRange, field, at: position)
    }

    /// Returns the position after a number. Throws for any other value.
    @inline(__always)
    func skipRequiredNumber(_ position: Int, _ field: Field) throws(Fault) -> Int {
        guard position < count, byte(position) == UInt8(ascii: "-") || byte(position) &- UInt8(ascii: "0") < 10 else {
            throw wrongTypeFault(position, field)
        }
        return try skipNumber(position, field)
    }

    /// Reads any number as a date in whole seconds. The fraction is cut off, and the result is clamped to
    /// `0...Int64.max`.
    func readSeconds(_ start: Int, _ field: Field) throws(Fault) -> (value: Int64, next: Int) {
        let next = try skipRequiredNumber(start, field)
        if byte(start) == UInt8(ascii: "-") { return (0, next) }
        let (value, digitsEnd) = readLeadingDigits(start)
        return (digitsEnd == next ? Int64(truncatingIfNeeded: value) : readWholePart(start, next), next)
    }

    /// Returns the whole part of a non-negative number. An exponent first moves the decimal point: the whole part of
    /// `1.234e2` is 123.
    @inline(never)
    private func readWholePart(_ start: Int, _ end: Int) -> Int64 {
        var wholeDigitCount = 0
        var hasPoint = false
        var position = start
        while position < end, byte(position) | 0x20 != UInt8(ascii: "e") {
            if byte(position) == UInt8(ascii: ".") { hasPoint = true } else if !hasPoint { wholeDigitCount &+= 1 }
            position &+= 1
        }
        let digitsEnd = position
        wholeDigitCount &+= readExponent(position, end)

        var value: Int64 = 0
        var readDigitCount = 0
        position = start
        while readDigitCount < wholeDigitCount, position < digitsEnd || value > 0 {
            var digit: UInt8 = 0
            if position < digitsEnd {
                digit = byte(position) &- UInt8(ascii: "0")
                position &+= 1
                if digit > 9 { continue }
            }
            let (product, hasProductOverflowed) = value.multipliedReportingOverflow(by: 10)
            let (sum, hasSumOverflowed) = product.addingReportingOverflow(Int64(digit))
            if hasProductOverflowed || hasSumOverflowed { return .max }
            value = sum
            readDigitCount &+= 1
        }
        return value
    }

    /// Reads the exponent whose "e" is at `start`; 0 if there is none. The result is clamped to twice the maximum
    /// length of a record: this moves the decimal point beyond all digits.
    private func readExponent(_ start: Int, _ end: Int) -> Int {
        guard start < end else { return 0 }
        var value = 0
        for position in start &+ 1..<end {
            let digit = byte(position) &- UInt8(ascii: "0")
            if digit < 10 { value = min(value &* 10 &+ Int(digit), Limits.recordBytesMax &* 2) }
        }
        return byte(start &+ 1) == UInt8(ascii: "-") ? -value : value
    }
}
