import Numbers

/// The place of a string in a JSON text, without its quotes.
struct JSONStringRange {
    /// The position after the opening quote.
    var start: Int
    /// The position of the closing quote.
    var end: Int
    var isEscaped: Bool
    /// Whether the string is only printable ASCII without escapes.
    var isPrintableASCII: Bool

    @inline(__always)
    var range: ByteRange { ByteRange(from: start, to: end) }
    @inline(__always)
    var textRange: TextRange { TextRange(range: range, isEscaped: isEscaped) }
    @inline(__always)
    var isEmpty: Bool { start == end }
    @inline(__always)
    var nextPosition: Int { end &+ 1 }
}

private let quote = UInt8(ascii: "\"")
private let backslash = UInt8(ascii: "\\")

/// Finds the first byte of `word` that is not plain: a quote, a backslash, a control character, DEL, or not ASCII.
///
/// The result is 0 if all bytes are plain. Otherwise its lowest 1 is the top bit of the first byte that is not plain.
/// Callers must ignore all higher bits, because they may be wrong.
///
/// Four expressions are computed, each for all eight bytes at once. For a byte `b`, the top bit of an expression is 1
/// if `b` is not plain for this reason:
/// - `(b ^ 2) - 0x21`: a quote, which `^ 2` changes from 0x22 to 0x20, or a control character (below 0x20)
/// - `(b ^ 0x5C) - 1`: a backslash (0x5C)
/// - `b + 1`: DEL (0x7F)
/// - `b`: not ASCII
///
/// A carry or borrow into the next byte begins only at a byte that is not plain. So the lowest 1 is always right.
@inline(__always)
func nonPlainByteMask(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let quoteOrControl = (word ^ (ones &* 0x02)) &- (ones &* 0x21)
    let escape = (word ^ (ones &* UInt64(backslash))) &- ones
    return (quoteOrControl | escape | (word &+ ones) | word) & (ones &* 0x80)
}

extension JSONText {
    /// Reads a string, whose opening quote must be at `position`.
    ///
    /// Most keys and values have at most fifteen bytes, all of them plain (``nonPlainByteMask(_:)``). Such a string is
    /// read inline, because its closing quote is among the next 16 bytes. `readRestOfString` reads a string that is
    /// longer, has other bytes, or is so near the end of the record that 16 bytes cannot be read.
    @inline(__always)
    func readString(_ position: Int, _ field: Field) throws(Fault) -> JSONStringRange {
        guard peek(position) == quote else { throw wrongTypeFault(position, field) }
        let start = position &+ 1
        var plainEnd = start
        if start &+ 16 <= count {
            var topBits = nonPlainByteMask(eightBytes(start))
            if topBits == 0 {
                plainEnd = start &+ 8
                topBits = nonPlainByteMask(eightBytes(plainEnd))
            }
            plainEnd = plainEnd &+ (topBits.trailingZeroBitCount &>> 3)
            if topBits != 0, byte(plainEnd) == quote {
                return JSONStringRange(start: start, end: plainEnd, isEscaped: false, isPrintableASCII: true)
            }
        }
        return try readRestOfString(start, from: plainEnd, field)
    }

    /// Returns the position of the first byte from `start` on that is not plain (``nonPlainByteMask(_:)``); the
    /// record's length if all bytes are plain.
    @inline(__always)
    private func endOfPlainBytes(_ start: Int) -> Int {
        var position = start
        while position &+ 8 <= count {
            let topBits = nonPlainByteMask(eightBytes(position))
            if topBits != 0 { return position &+ (topBits.trailingZeroBitCount &>> 3) }
            position &+= 8
        }
        while position < count {
            let nextByte = byte(position)
            if nextByte == quote || nextByte == backslash || nextByte < 0x20 || nextByte >= 0x7F { break }
            position &+= 1
        }
        return position
    }

    /// Reads the rest of a string, from `plainEnd` on. All bytes before it have been read and are plain.
    @inline(never)
    private func readRestOfString(_ start: Int, from plainEnd: Int, _ field: Field) throws(Fault) -> JSONStringRange {
        var string = JSONStringRange(start: start, end: plainEnd, isEscaped: false, isPrintableASCII: true)
        var position = endOfPlainBytes(plainEnd)
        while position < count {
            switch byte(position) {
            case quote:
                guard position &- start <= Limits.stringBytesMax else {
                    throw Fault(.tooLong, field, at: start &- 1, valueAboveLimit: position &- start)
                }
                string.end = position
                return string
            case backslash:
                string.isEscaped = true
                position = try skipEscape(position, field)
            case 0..<0x20:
                throw Fault(.controlCharacter, field, at: position)
            case 0x7F:
                position &+= 1
            default:
                position = try skipMultibyteCharacter(position, field)
            }
            string.isPrintableASCII = false
            position = endOfPlainBytes(position)
        }
        throw Fault(.truncated, field, at: count)
    }

    /// Returns the position after the escape whose backslash is at `position`. A pair of surrogates, such as
    /// `\uD83D\uDE00`, is one escape.
    private func skipEscape(_ position: Int, _ field: Field) throws(Fault) -> Int {
        guard position &+ 1 < count else { throw Fault(.truncated, field, at: count) }
        switch byte(position &+ 1) {
        case quote, backslash, UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            return position &+ 2
        case UInt8(ascii: "u"):
            let unit = try readCodeUnit(position &+ 2, field)
            if unit & 0xF800 != 0xD800 { return position &+ 6 }
            guard unit < 0xDC00, position &+ 7 < count, byte(position &+ 6) == backslash,
                byte(position &+ 7) == UInt8(ascii: "u"),
                try readCodeUnit(position &+ 8, field) & 0xFC00 == 0xDC00
            else { throw Fault(.loneSurrogate, field, at: position) }
            return position &+ 12
        default:
            throw Fault(.invalidEscape, field, at: position)
        }
    }

    /// Reads the four hexadecimal digits of a `\u` escape.
    private func readCodeUnit(_ position: Int, _ field: Field) throws(Fault) -> UInt32 {
        var unit: UInt32 = 0
        for digitPosition in position..<position &+ 4 {
            guard digitPosition < count else { throw Fault(.truncated, field, at: count) }
            guard let digit = Hexadecimal.digitValue(byte(digitPosition)) else {
                throw Fault(.invalidEscape, field, at: digitPosition)
            }
            unit = unit &<< 4 | UInt32(digit)
        }
        return unit
    }

    /// Returns the position after a character of two to four bytes. Throws if its bytes are not well-formed UTF-8.
    @inline(__always)
    private func skipMultibyteCharacter(_ position: Int, _ field: Field) throws(Fault) -> Int {
        let length = UTF8Sequence.multibyteLength(
            UnsafeRawBufferPointer(start: base, count: count),
            at: position
        )
        guard length > 0 else { throw Fault(.invalidUTF8, field, at: position) }
        return position &+ length
    }
}

enum UTF8Sequence {
    /// Returns the length of the character at `position`: 2 to 4 bytes. Returns 0 for an ASCII character, and for bytes
    /// that are not well formed (Unicode, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
    @inline(__always)
    static func multibyteLength(_ bytes: UnsafeRawBufferPointer, at position: Int) -> Int {
        let remainingCount = bytes.count &- position
        guard remainingCount >= 2 else { return 0 }
        let secondByte = bytes[position &+ 1]
        switch bytes[position] {
        case 0xC2...0xDF:
            return isContinuation(secondByte) ? 2 : 0
        case 0xE0...0xEF:
            let firstByte = bytes[position]
            let secondByteMin: UInt8 = firstByte == 0xE0 ? 0xA0 : 0x80
            let secondByteMax: UInt8 = firstByte == 0xED ? 0x9F : 0xBF
            return remainingCount >= 3 && secondByte >= secondByteMin && secondByte <= secondByteMax
                && isContinuation(bytes[position &+ 2]) ? 3 : 0
        case 0xF0...0xF4:
            let firstByte = bytes[position]
            let secondByteMin: UInt8 = firstByte == 0xF0 ? 0x90 : 0x80
            let secondByteMax: UInt8 = firstByte == 0xF4 ? 0x8F : 0xBF
            return remainingCount >= 4 && secondByte >= secondByteMin && secondByte <= secondByteMax
                && isContinuation(bytes[position &+ 2])
                && isContinuation(bytes[position &+ 3]) ? 4 : 0
        default:
            return 0
        }
    }

    @inline(__always)
    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }
}
