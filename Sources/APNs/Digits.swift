/// Text of digits, to and from bytes, without String.
enum Hexadecimal {
    /// Whether every byte is one of `0`-`9`, `a`-`f`.
    static func isLowerCase(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset + 8 <= bytes.count {
            guard isLowerCase(bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) else { return false }
            offset += 8
        }
        while offset < bytes.count {
            // The seven bytes beside it are digits.
            guard isLowerCase(0x3030_3030_3030_3000 | UInt64(bytes[offset])) else { return false }
            offset += 1
        }
        return true
    }

    /// Eight bytes at once. Adding to a byte below 0x80 sets its top bit where it reaches a bound, and carries nothing
    /// into its neighbour.
    private static func isLowerCase(_ block: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops = ones &* 0x80
        let isDigit = (block &+ ones &* (0x80 - 0x30)) & ~(block &+ ones &* (0x80 - 0x3A))
        let isLetter = (block &+ ones &* (0x80 - 0x61)) & ~(block &+ ones &* (0x80 - 0x67))
        return block & tops == 0 && (isDigit | isLetter) & tops == tops
    }

    /// The length of a UUID's canonical text, 8-4-4-4-12.
    static let identifierBytes = 36

    /// Writes a UUID in the canonical lower-case form that `apns-id` asks for.
    static func writeIdentifier(_ identifier: (UInt64, UInt64), to text: UnsafeMutablePointer<UInt8>) {
        let raw = UnsafeMutableRawPointer(text)
        let second = digits(UInt32(truncatingIfNeeded: identifier.0))
        let third = digits(UInt32(truncatingIfNeeded: identifier.1 >> 32))
        raw.storeBytes(of: digits(UInt32(identifier.0 >> 32)), as: UInt64.self)
        raw.storeBytes(of: UInt32(truncatingIfNeeded: second), toByteOffset: 9, as: UInt32.self)
        raw.storeBytes(of: UInt32(second >> 32), toByteOffset: 14, as: UInt32.self)
        raw.storeBytes(of: UInt32(truncatingIfNeeded: third), toByteOffset: 19, as: UInt32.self)
        raw.storeBytes(of: UInt32(third >> 32), toByteOffset: 24, as: UInt32.self)
        raw.storeBytes(of: digits(UInt32(truncatingIfNeeded: identifier.1)), toByteOffset: 28, as: UInt64.self)
        let dash = UInt8(ascii: "-")
        (text[8], text[13], text[18], text[23]) = (dash, dash, dash, dash)
    }

    /// The eight digits of a number, the first one in the lowest byte.
    private static func digits(_ number: UInt32) -> UInt64 {
        // One nibble into each byte, by halves.
        var nibbles = UInt64(number.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles >> 4 | nibbles << 8) & 0x0F0F_0F0F_0F0F_0F0F
        let ones: UInt64 = 0x0101_0101_0101_0101
        // 1 in each byte whose nibble is 10 or more; such a byte is a letter, 39 places after the digits.
        let letters = (nibbles &+ ones &* 6) >> 4 & ones
        return (nibbles &+ ones &* 0x30 &+ letters &* 39).littleEndian
    }
}

enum Decimal {
    /// The most digits that an Int64 of 0 or above has.
    static let digitsMax = 19

    /// Writes a number of 0 or above and gives the count of its digits.
    static func write(_ number: Int64, to text: UnsafeMutablePointer<UInt8>) -> Int {
        precondition(number >= 0)
        var rest = UInt64(number)
        var count = 1
        while rest >= 10 {
            rest /= 10
            count += 1
        }
        rest = UInt64(number)
        for position in stride(from: count - 1, through: 0, by: -1) {
            text[position] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        return count
    }

    /// Reads digits only; nil if there is none, any other byte, or a number above `max`.
    static func read(_ text: UnsafeRawBufferPointer, max: Int64) -> Int64? {
        guard !text.isEmpty, text.count <= digitsMax else { return nil }
        var number: Int64 = 0
        for byte in text {
            let digit = byte &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            let (tenfold, multiplyOverflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, addOverflow) = tenfold.addingReportingOverflow(Int64(digit))
            guard !multiplyOverflow, !addOverflow else { return nil }
            number = sum
        }
        return number <= max ? number : nil
    }
}
