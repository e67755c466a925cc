import Glibc

/// Returns the value of a hexadecimal digit, in lower or upper case; nil for another byte.
///
/// This file does not use `Numbers`: the worker writes digits with `Numbers`, and the simulator must check them with
/// code of its own.
func hexDigitValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}

/// Whether the text is well-formed UTF-8 (RFC 3629): no surrogates, no overlong forms. Checks ASCII eight bytes at a
/// time.
func isUTF8(_ text: UnsafeRawBufferPointer) -> Bool {
    var offset = 0
    while offset < text.count {
        if offset + 8 <= text.count,
            text.loadUnaligned(fromByteOffset: offset, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
        {
            offset += 8
            continue
        }
        let length = characterByteCount(text, at: offset)
        guard length > 0 else { return false }
        offset += length
    }
    return true
}

/// Returns the number of bytes of the well-formed character at an offset; 0 if there is none.
private func characterByteCount(_ text: UnsafeRawBufferPointer, at offset: Int) -> Int {
    let lead = text[offset]
    let length: Int
    var second: ClosedRange<UInt8> = 0x80...0xBF
    switch lead {
    case 0x00...0x7F: return 1
    case 0xC2...0xDF: length = 2
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: length = 3
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    case 0xF1...0xF3: length = 4
    default: return 0
    }
    guard offset + length <= text.count, second.contains(text[offset + 1]) else { return 0 }
    for index in 2..<max(length, 2) where text[offset + index] & 0xC0 != 0x80 { return 0 }
    return length
}

/// Whether the bytes are those of an ASCII literal.
@inline(__always)
func isEqual(_ bytes: UnsafeRawBufferPointer, _ literal: StaticString) -> Bool {
    guard bytes.count == literal.utf8CodeUnitCount, let start = bytes.baseAddress else { return false }
    return memcmp(start, literal.utf8Start, bytes.count) == 0
}

/// Whether two buffers have the same bytes. The cores' `hasSameBytes(as:)` does the same, but the simulator imports no
/// core: it must find the errors of the worker.
@inline(__always)
func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    guard let leftStart = left.baseAddress, let rightStart = right.baseAddress else { return left.isEmpty }
    return memcmp(leftStart, rightStart, left.count) == 0
}

/// Reads decimal digits as a number. Returns nil for any other text. Also returns nil for more than 18 digits, because
/// the number might overflow.
func parseUnsignedDecimal(_ bytes: UnsafeRawBufferPointer) -> Int64? {
    guard (1...18).contains(bytes.count) else { return nil }
    var value: Int64 = 0
    for byte in bytes {
        guard byte &- UInt8(ascii: "0") < 10 else { return nil }
        value = value * 10 + Int64(byte &- UInt8(ascii: "0"))
    }
    return value
}
