extension JSONText {
    /// Reads and validates any value without interpreting it, and returns the position after it.
    ///
    /// Uses no recursion. Instead, `objectBits` has a bit for each container that is open inside the value: 1 for an
    /// object, and 0 for an array. The lowest bit is the innermost container.
    ///
    /// - Parameter depth: the number of open containers around the value.
    func skipValue(_ start: Int, depth: Int, _ field: Field) throws(Fault) -> Int {
        var objectBits: UInt64 = 0
        var levelCount = 0
        var position = start
        while true {
            let firstByte = peek(position)
            if firstByte == UInt8(ascii: "{") || firstByte == UInt8(ascii: "[") {
                guard depth &+ levelCount < Limits.nestingDepthMax else { throw Fault(.tooDeep, field, at: position) }
                let isObject = firstByte == UInt8(ascii: "{")
                objectBits = objectBits &<< 1 | (isObject ? 1 : 0)
                levelCount &+= 1
                position = skipWhitespace(position &+ 1)
                // In ASCII, "}" and "]" are two above "{" and "[". So `firstByte + 2` closes an empty container.
                let isEmpty = peek(position) == firstByte &+ 2
                if !isEmpty {
                    if isObject { position = try skipKeyAndColon(position, field) }
                    continue
                }
            } else {
                position = try skipScalar(position, field)
            }
            while true {
                guard levelCount > 0 else { return position }
                var nextByte = peek(position)
                if nextByte <= 0x20 {
                    position = skipWhitespace(position)
                    nextByte = peek(position)
                }
                let isObject = objectBits & 1 == 1
                if nextByte == UInt8(ascii: ",") {
                    position = skipWhitespace(position &+ 1)
                    if isObject { position = try skipKeyAndColon(position, field) }
                    break
                }
                guard nextByte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
                    throw unexpectedByteFault(position, field)
                }
                objectBits &>>= 1
                levelCount &-= 1
                position &+= 1
            }
        }
    }

    @inline(__always)
    private func skipKeyAndColon(_ position: Int, _ field: Field) throws(Fault) -> Int {
        guard peek(position) == UInt8(ascii: "\"") else { throw unexpectedByteFault(position, field) }
        return try skipColon(readString(position, field).nextPosition, field)
    }

    /// Reads the colon after a key and returns the position of the value.
    @inline(__always)
    func skipColon(_ start: Int, _ field: Field) throws(Fault) -> Int {
        var position = start
        if peek(position) != UInt8(ascii: ":") {
            position = skipWhitespace(position)
            guard peek(position) == UInt8(ascii: ":") else { throw unexpectedByteFault(position, field) }
        }
        return skipWhitespace(position &+ 1)
    }

    /// Validates a value that is not a container, and returns the position after it.
    @inline(__always)
    private func skipScalar(_ position: Int, _ field: Field) throws(Fault) -> Int {
        switch peek(position) {
        case UInt8(ascii: "\""): return try readString(position, field).nextPosition
        case UInt8(ascii: "1")...UInt8(ascii: "9"):
            // Most numbers are short integers, so they are read here, without a call of `skipNumber`.
            var end = position &+ 1
            while peek(end) &- UInt8(ascii: "0") < 10 { end &+= 1 }
            let isWhole = peek(end) != UInt8(ascii: ".") && peek(end) | 0x20 != UInt8(ascii: "e")
            return isWhole ? end : try skipNumber(position, field)
        case UInt8(ascii: "-"), UInt8(ascii: "0"): return try skipNumber(position, field)
        case UInt8(ascii: "t"): return try skipLiteral("true", position, field)
        case UInt8(ascii: "f"): return try skipLiteral("false", position, field)
        case UInt8(ascii: "n"): return try skipLiteral("null", position, field)
        default: throw unexpectedByteFault(position, field)
        }
    }

    func skipLiteral(_ word: StaticString, _ position: Int, _ field: Field) throws(Fault) -> Int {
        for index in 0..<word.utf8CodeUnitCount {
            guard position &+ index < count, byte(position &+ index) == word.utf8Start[index] else {
                throw unexpectedByteFault(position &+ index, field)
            }
        }
        return position &+ word.utf8CodeUnitCount
    }

    /// Reads a number by JSON's grammar. The number may have any size, because its value is not computed.
    func skipNumber(_ start: Int, _ field: Field) throws(Fault) -> Int {
        var position = start
        if position < count, byte(position) == UInt8(ascii: "-") { position &+= 1 }
        guard position < count else { throw Fault(.truncated, field, at: position) }
        if byte(position) == UInt8(ascii: "0") {
            position &+= 1
        } else {
            position = try skipDigits(position, field)
        }
        guard position < count, byte(position) == UInt8(ascii: ".") || byte(position) | 0x20 == UInt8(ascii: "e")
        else { return position }
        return try skipFractionAndExponent(position, field)
    }

    private func skipFractionAndExponent(_ start: Int, _ field: Field) throws(Fault) -> Int {
        var position = start
        if byte(position) == UInt8(ascii: ".") { position = try skipDigits(position &+ 1, field) }
        guard position < count, byte(position) | 0x20 == UInt8(ascii: "e") else { return position }
        position &+= 1
        if position < count, byte(position) == UInt8(ascii: "+") || byte(position) == UInt8(ascii: "-") {
            position &+= 1
        }
        return try skipDigits(position, field)
    }

    /// Returns the position after the digits at `start`. Throws if there is no digit.
    @inline(__always)
    private func skipDigits(_ start: Int, _ field: Field) throws(Fault) -> Int {
        var position = start
        while position < count, byte(position) &- UInt8(ascii: "0") < 10 { position &+= 1 }
        guard position > start else { throw unexpectedByteFault(position, field) }
        return position
    }
}
