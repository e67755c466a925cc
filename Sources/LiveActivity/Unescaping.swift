import Glibc
import Numbers

/// The bytes that a JSON string represents, one by one.
///
/// The escapes are well formed, because ``JSONText`` has read the string before. Wrong escapes would give wrong bytes
/// or end the sequence early, but never lead to reading out of bounds.
struct UnescapedBytes: Sequence, IteratorProtocol {
    private let source: UnsafeRawBufferPointer
    private var position = 0
    /// The UTF-8 bytes of an escape that ``next()`` has not returned yet. The lowest eight bits are the next byte.
    private var pendingUTF8: UInt32 = 0
    private var pendingByteCount = 0

    init(_ source: UnsafeRawBufferPointer) {
        self.source = source
    }

    mutating func next() -> UInt8? {
        if pendingByteCount > 0 {
            let byte = UInt8(truncatingIfNeeded: pendingUTF8)
            pendingUTF8 &>>= 8
            pendingByteCount &-= 1
            return byte
        }
        guard position < source.count else { return nil }
        let byte = source[position]
        guard byte == UInt8(ascii: "\\") else {
            position &+= 1
            return byte
        }
        guard position &+ 1 < source.count else { return nil }
        position &+= 2
        switch source[position &- 1] {
        case UInt8(ascii: "b"): return 0x08
        case UInt8(ascii: "f"): return 0x0C
        case UInt8(ascii: "n"): return 0x0A
        case UInt8(ascii: "r"): return 0x0D
        case UInt8(ascii: "t"): return 0x09
        case UInt8(ascii: "u"): return readUnicodeEscape()
        case let plain: return plain
        }
    }

    /// Reads one `\u` escape, or two for a surrogate pair. Returns the first UTF-8 byte of the character and keeps the
    /// others.
    private mutating func readUnicodeEscape() -> UInt8? {
        guard let unit = readCodeUnit() else { return nil }
        var scalar = unit
        if unit & 0xFC00 == 0xD800 {
            position &+= 2
            guard let low = readCodeUnit() else { return nil }
            scalar = 0x10000 &+ (unit & 0x3FF) &<< 10 &+ (low & 0x3FF)
        }
        switch scalar {
        case 0..<0x80:
            return UInt8(truncatingIfNeeded: scalar)
        case 0x80..<0x800:
            setPendingUTF8(continuationByte(scalar, 0), count: 1)
            return UInt8(truncatingIfNeeded: 0xC0 | scalar &>> 6)
        case 0x800..<0x10000:
            setPendingUTF8(continuationByte(scalar, 6) | continuationByte(scalar, 0) &<< 8, count: 2)
            return UInt8(truncatingIfNeeded: 0xE0 | scalar &>> 12)
        default:
            setPendingUTF8(
                continuationByte(scalar, 12) | continuationByte(scalar, 6) &<< 8 | continuationByte(scalar, 0) &<< 16,
                count: 3
            )
            return UInt8(truncatingIfNeeded: 0xF0 | scalar &>> 18)
        }
    }

    private func continuationByte(_ scalar: UInt32, _ shift: UInt32) -> UInt32 { 0x80 | scalar &>> shift & 0x3F }

    private mutating func setPendingUTF8(_ bytes: UInt32, count: Int) {
        pendingUTF8 = bytes
        pendingByteCount = count
    }

    private mutating func readCodeUnit() -> UInt32? {
        guard position &+ 4 <= source.count else { return nil }
        var unit: UInt32 = 0
        for _ in 0..<4 {
            unit = unit &<< 4 | UInt32(Hexadecimal.digitValue(source[position]) ?? 0)
            position &+= 1
        }
        return unit
    }
}

/// Writes the text that a record's string represents, in UTF-8.
///
/// - Parameters:
///   - text: a string that was found when `record` was decoded. An absent string gives no bytes.
///   - target: has room for at least `text.range.count` bytes; unescaping never makes a string longer.
/// - Returns: the number of bytes written.
public func unescape(
    _ text: TextRange,
    from record: UnsafeRawBufferPointer,
    into target: UnsafeMutableRawBufferPointer
) -> Int {
    let source = text.range.bytes(in: record)
    precondition(target.count >= source.count, "there is no room for the string")
    guard text.isEscaped else {
        target.copyMemory(from: source)
        return source.count
    }
    var writtenByteCount = 0
    for byte in UnescapedBytes(source) {
        target[writtenByteCount] = byte
        writtenByteCount &+= 1
    }
    return writtenByteCount
}

@inline(__always)
func equals(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
    guard bytes.count == word.utf8CodeUnitCount, let start = bytes.baseAddress else { return false }
    return memcmp(start, word.utf8Start, word.utf8CodeUnitCount) == 0
}

/// Whether two JSON strings represent the same characters. For example, `\u0061` and `a` represent the same character.
func haveEqualUnescapedBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    var unescapedLeft = UnescapedBytes(left)
    var unescapedRight = UnescapedBytes(right)
    while true {
        let byte = unescapedLeft.next()
        guard byte == unescapedRight.next() else { return false }
        if byte == nil { return true }
    }
}
