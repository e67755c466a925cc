import Glibc

/// Reads numbers by the rules of `JSONDecoder`.
extension ContractChecker {
    /// The maximum number of digits that ``readInteger(_:_:_:)`` reads itself: 18 digits always fit into `Int64`.
    /// `readIntegerInAnyForm` reads longer numbers.
    private static let shortIntegerDigitsMax = 18
    /// A number without an exponent, and with at most this many characters, always fits its type: its absolute value is
    /// below 10³⁷ and, if not 0, at least 10⁻³⁵. A `Float` has values from 10⁻³⁸ to 3·10³⁸, a `Double` has more, and a
    /// `Decimal` has 38 digits.
    private static let shortNumberCharactersMax = 37
    /// The maximum number of characters that are converted to a `Double`. Further digits do not change whether the
    /// number fits its type. An exponent after these characters is ignored, because no app writes such a number.
    private static let convertedCharactersMax = 1_100

    @inline(__always)
    private func mismatch(_ problem: ContractMismatch.Problem, _ nodeIndex: Int, _ position: Int) -> ContractMismatch {
        ContractMismatch(problem: problem, nodeIndex: nodeIndex, offset: position, fittingPartEnd: position)
    }

    @inline(__always)
    private func isNumber(_ position: Int) -> Bool {
        let firstByte = text.peek(position)
        return firstByte &- UInt8(ascii: "0") < 10 || firstByte == UInt8(ascii: "-")
    }

    /// Reads a whole number. `1.0` and `1e2` are whole too. Throws if the value is not a whole number, or does not fit
    /// its type.
    @inline(__always)
    func readInteger(
        _ kind: ShapeKind,
        _ start: Int,
        _ nodeIndex: Int
    ) throws(ContractMismatch) -> (value: Int64, next: Int) {
        guard isNumber(start) else { throw mismatch(.wrongType, nodeIndex, start) }
        let isNegative = text.byte(start) == UInt8(ascii: "-")
        var position = isNegative ? start &+ 1 : start
        let digitsStart = position
        var value: Int64 = 0
        while text.peek(position) &- UInt8(ascii: "0") < 10, position &- digitsStart < Self.shortIntegerDigitsMax {
            value = value &* 10 &+ Int64(text.byte(position) &- UInt8(ascii: "0"))
            position &+= 1
        }
        let nextByte = text.peek(position)
        if nextByte == UInt8(ascii: ".") || nextByte | 0x20 == UInt8(ascii: "e") || nextByte &- UInt8(ascii: "0") < 10 {
            return try readIntegerInAnyForm(kind, start, nodeIndex)
        }
        if isNegative { value = 0 &- value }
        guard fits(value, kind) else { throw mismatch(.outOfRange, nodeIndex, start) }
        return (value, position)
    }

    @inline(__always)
    private func fits(_ value: Int64, _ kind: ShapeKind) -> Bool {
        switch kind {
        case .int8: Int8(exactly: value) != nil
        case .int16: Int16(exactly: value) != nil
        case .int32: Int32(exactly: value) != nil
        case .uint8: UInt8(exactly: value) != nil
        case .uint16: UInt16(exactly: value) != nil
        case .uint32: UInt32(exactly: value) != nil
        case .uint64: value >= 0
        default: true
        }
    }

    /// Reads a whole number in any form: with any number of digits, with a fraction or an exponent. `1.0` and `1e2` are
    /// whole. Throws for a number that is not whole, such as `1.5`, or does not fit its type.
    @inline(never)
    private func readIntegerInAnyForm(
        _ kind: ShapeKind,
        _ start: Int,
        _ nodeIndex: Int
    ) throws(ContractMismatch) -> (value: Int64, next: Int) {
        let next = try skipValue(start, nodeIndex)
        let number = readDouble(start, next)
        // A `Double` represents every whole number below 2⁵³ exactly, so the number needs no other check. `JSONDecoder`
        // relies on this too.
        if number.magnitude < 9_007_199_254_740_992 {
            guard let value = Int64(exactly: number), fits(value, kind) else {
                throw mismatch(.outOfRange, nodeIndex, start)
            }
            return (value, next)
        }
        guard kind == .int64 || kind == .uint64, let wholeMagnitude = readWholeMagnitude(start, next) else {
            throw mismatch(.outOfRange, nodeIndex, start)
        }
        let isNegative = text.byte(start) == UInt8(ascii: "-")
        let isInRange =
            kind == .uint64
            ? !isNegative : wholeMagnitude <= (isNegative ? UInt64(Int64.max) &+ 1 : UInt64(Int64.max))
        guard isInRange else { throw mismatch(.outOfRange, nodeIndex, start) }
        let value = Int64(truncatingIfNeeded: wholeMagnitude)
        return (isNegative ? 0 &- value : value, next)
    }

    /// Reads the absolute value of a large number; nil if the number is not whole or exceeds 64 bits.
    private func readWholeMagnitude(_ start: Int, _ end: Int) -> UInt64? {
        var value: UInt64 = 0
        var fractionDigitCount = 0
        var (isFraction, isExponent, isExponentNegative) = (false, false, false)
        var exponent = 0
        // The number of zeros that were read last, and are not in `value` yet. They are appended when another digit
        // follows, or at the end. So the zeros at the end of a fraction, as in `1.000`, cause no overflow.
        var pendingDigitCount = 0
        for position in start..<end {
            let byte = text.byte(position)
            let digit = byte &- UInt8(ascii: "0")
            if digit < 10, isExponent {
                exponent = min(exponent &* 10 &+ Int(digit), 1_000)
            } else if digit < 10 {
                if isFraction { fractionDigitCount &+= 1 }
                pendingDigitCount &+= 1
                guard digit != 0 else { continue }
                guard let shifted = Self.appendZeros(value, pendingDigitCount) else { return nil }
                let (sum, isOverflow) = shifted.addingReportingOverflow(UInt64(digit))
                guard !isOverflow else { return nil }
                (value, pendingDigitCount) = (sum, 0)
            } else if byte == UInt8(ascii: ".") {
                isFraction = true
            } else if byte | 0x20 == UInt8(ascii: "e") {
                isExponent = true
            } else if byte == UInt8(ascii: "-"), isExponent {
                isExponentNegative = true
            }
        }
        let shift = pendingDigitCount &- fractionDigitCount &+ (isExponentNegative ? -exponent : exponent)
        return shift < 0 ? nil : Self.appendZeros(value, shift)
    }

    /// Appends decimal zeros to a value; nil if the result exceeds 64 bits.
    private static func appendZeros(_ value: UInt64, _ zeroCount: Int) -> UInt64? {
        guard value > 0 else { return 0 }
        guard zeroCount < 20 else { return nil }
        var result = value
        for _ in 0..<zeroCount {
            let (product, isOverflow) = result.multipliedReportingOverflow(by: 10)
            guard !isOverflow else { return nil }
            result = product
        }
        return result
    }

    /// Checks that a number fits the field's Swift type, such as `Double` or `Date`. Returns the position after the
    /// number.
    @inline(__always)
    func checkNumber(_ kind: ShapeKind, _ start: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int {
        guard isNumber(start) else { throw mismatch(.wrongType, nodeIndex, start) }
        var position = start &+ 1
        while text.peek(position) &- UInt8(ascii: "0") < 10 { position &+= 1 }
        if text.peek(position) == UInt8(ascii: ".") {
            position &+= 1
            while text.peek(position) &- UInt8(ascii: "0") < 10 { position &+= 1 }
        }
        let isShort =
            text.peek(position) | 0x20 != UInt8(ascii: "e") && position &- start <= Self.shortNumberCharactersMax
        return isShort ? position : try checkNumberInAnyForm(kind, start, nodeIndex)
    }

    @inline(never)
    private func checkNumberInAnyForm(_ kind: ShapeKind, _ start: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int
    {
        let next = try skipValue(start, nodeIndex)
        let number = readDouble(start, next)
        // A `Decimal` has a smaller range than a `Double`. This range is not checked, because no app has numbers near
        // its bounds.
        let isZero = kind == .float ? Float(number) == 0 : number == 0
        let isFinite = kind == .float ? Float(number).isFinite : number.isFinite
        guard isFinite, !isZero || hasOnlyZeros(start, next) else { throw mismatch(.outOfRange, nodeIndex, start) }
        return next
    }

    private func hasOnlyZeros(_ start: Int, _ end: Int) -> Bool {
        for position in start..<end {
            let byte = text.byte(position)
            if byte | 0x20 == UInt8(ascii: "e") { return true }
            if (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(byte) { return false }
        }
        return true
    }

    /// Returns the value of the number from `start` to `end`. Characters after the first ``convertedCharactersMax`` are
    /// ignored.
    func readDouble(_ start: Int, _ end: Int) -> Double {
        let characterCount = min(end &- start, Self.convertedCharactersMax)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: characterCount &+ 1) { characters in
            for index in 0..<characterCount { characters[index] = CChar(truncatingIfNeeded: text.byte(start &+ index)) }
            characters[characterCount] = 0
            guard let first = characters.baseAddress else { return 0 }
            return strtod(first, nil)
        }
    }

    func checkNumberEnum(_ shape: ShapeNode, _ position: Int, _ nodeIndex: Int) throws(ContractMismatch) -> Int {
        let (value, next) = try readInteger(.int64, position, nodeIndex)
        for caseIndex in Int(shape.firstChild)..<Int(shape.firstChild) &+ Int(shape.childCount)
        where contract.rawValues[caseIndex].number == value { return next }
        throw mismatch(.notOneOfTheCases, nodeIndex, position)
    }
}
