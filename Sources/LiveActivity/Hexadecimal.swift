/// Tokens in records and in APNs' paths: pairs of hexadecimal digits.
public enum Hexadecimal {
    /// The value of a digit in upper or lower case.
    static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte &- UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte &- UInt8(ascii: "a") &+ 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte &- UInt8(ascii: "A") &+ 10
        default: nil
        }
    }

    /// The lower-case digit of a value below 16.
    @inlinable
    @inline(__always)
    static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &+ (value &- 10)
    }

    /// Whether the bytes can be a token: an even number of hexadecimal digits in upper or lower case, ``Limits/tokenDigitsLeast``
    /// to ``Limits/tokenDigitsMost``. Such bytes are safe in a path and in a header.
    public static func isToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= Limits.tokenDigitsLeast, bytes.count <= Limits.tokenDigitsMost, bytes.count & 1 == 0 else {
            return false
        }
        var isValid = true
        var position = 0
        while position &+ 8 <= bytes.count {
            isValid = isValid && areDigits(bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            position &+= 8
        }
        // There are at least eight bytes. The last eight cover the rest and some bytes a second time.
        return isValid && areDigits(bytes.loadUnaligned(fromByteOffset: bytes.count &- 8, as: UInt64.self))
    }

    /// Checks eight digits at once. No byte of `word` has its top bit set, so no addition below carries into the next byte.
    @inline(__always)
    private static func areDigits(_ word: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        guard word & tops == 0 else { return false }
        let lower = word | (ones &* 0x20)
        let decimals = (word &+ ones &* (0x80 - 0x30)) & ~(word &+ ones &* (0x80 - 0x3A))
        let letters = (lower &+ ones &* (0x80 - 0x61)) & ~(lower &+ ones &* (0x80 - 0x67))
        return (decimals | letters) & tops == tops
    }

    /// Copies hexadecimal digits in lower case, in which tokens are compared, stored and sent.
    /// - Precondition: `target` has room for `digits.count` bytes, and `digits` satisfies ``isToken(_:)``.
    /// - Returns: the number of bytes written.
    public static func copyLowercased(
        _ digits: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int {
        precondition(target.count >= digits.count, "there is no room for the digits")
        for index in 0..<digits.count {
            // The digits 0 to 9 have this bit set already.
            target[index] = digits[index] | 0x20
        }
        return digits.count
    }

    /// Writes bytes as lower-case hexadecimal digits and returns the number of digits.
    /// - Precondition: `target` has room for two digits for each byte.
    @inlinable
    public static func write(_ bytes: UnsafeRawBufferPointer, to target: UnsafeMutableRawBufferPointer) -> Int {
        precondition(target.count >= bytes.count &* 2, "there is no room for the digits")
        for index in 0..<bytes.count {
            target[index &* 2] = digit(bytes[index] &>> 4)
            target[index &* 2 &+ 1] = digit(bytes[index] & 15)
        }
        return bytes.count &* 2
    }
}
