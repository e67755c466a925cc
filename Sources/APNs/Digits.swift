/// Checks, reads and writes hexadecimal digits and UUIDs as bytes, without `String`.
enum Hexadecimal {
    /// Whether every byte is one of `0`-`9`, `a`-`f`. Has no early exit, so that the compiler can compare sixteen bytes at once.
    static func isLowerCase(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return true }
        var wrong: UInt8 = 0
        for offset in 0..<bytes.count {
            let byte = start.load(fromByteOffset: offset, as: UInt8.self)
            wrong |= (byte &- UInt8(ascii: "0") > 9 ? 1 : 0) & (byte &- UInt8(ascii: "a") > 5 ? 1 : 0)
        }
        return wrong == 0
    }

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let tops: UInt64 = 0x8080_8080_8080_8080

    /// Tests eight bytes at once: sets the top bit of each byte that is a lower-case digit. Adding to a byte below 0x80
    /// sets its top bit if the sum reaches a bound, and carries nothing into the next byte.
    @inline(__always)
    private static func lowerCaseTops(_ block: UInt64) -> UInt64 {
        let low = block & ~tops
        let isDigit = (low &+ 0x5050_5050_5050_5050) & ~(low &+ 0x4646_4646_4646_4646)
        let isLetter = (low &+ 0x1F1F_1F1F_1F1F_1F1F) & ~(low &+ 0x1919_1919_1919_1919)
        return (isDigit | isLetter) & ~block & tops
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

    /// Reads a UUID in the form that `writeIdentifier` writes; nil for anything else.
    static func readIdentifier(_ text: UnsafeRawBufferPointer) -> (UInt64, UInt64)? {
        let dash = UInt8(ascii: "-")
        guard text.count == identifierBytes, text[8] == dash, text[13] == dash, text[18] == dash, text[23] == dash
        else { return nil }
        let first = text.loadUnaligned(as: UInt64.self)
        let second =
            UInt64(text.loadUnaligned(fromByteOffset: 14, as: UInt32.self)) << 32
            | UInt64(text.loadUnaligned(fromByteOffset: 9, as: UInt32.self))
        let third =
            UInt64(text.loadUnaligned(fromByteOffset: 24, as: UInt32.self)) << 32
            | UInt64(text.loadUnaligned(fromByteOffset: 19, as: UInt32.self))
        let fourth = text.loadUnaligned(fromByteOffset: 28, as: UInt64.self)
        let isRight =
            lowerCaseTops(first) & lowerCaseTops(second) & lowerCaseTops(third) & lowerCaseTops(fourth) == tops
        guard isRight else { return nil }
        return (
            UInt64(number(first)) << 32 | UInt64(number(second)),
            UInt64(number(third)) << 32 | UInt64(number(fourth))
        )
    }

    /// The number whose text `digits` writes.
    private static func number(_ digits: UInt64) -> UInt32 {
        // A letter has the bit 0x40 set, and its low nibble is nine too small.
        var nibbles = (digits & (ones &* 0x0F)) &+ (digits >> 6 & ones) &* 9
        nibbles = (nibbles << 4 | nibbles >> 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles | nibbles >> 8) & 0x0000_FFFF_0000_FFFF
        nibbles = nibbles | nibbles >> 16
        return UInt32(truncatingIfNeeded: nibbles).byteSwapped
    }

    /// The eight digits of a number, the first one in the lowest byte.
    private static func digits(_ number: UInt32) -> UInt64 {
        // Puts one nibble into each byte, by halves.
        var nibbles = UInt64(number.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles >> 4 | nibbles << 8) & 0x0F0F_0F0F_0F0F_0F0F
        // Sets 1 in each byte whose nibble is 10 or more. Such a digit is a letter, 39 places above the decimal digits.
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
        var bound: UInt64 = 10
        while count < digitsMax, rest >= bound {
            count += 1
            bound = bound &* 10
        }
        var position = count
        // Eight digits at a time from the end; an expiration has ten digits.
        while position > 8 {
            position -= 8
            let (quotient, eight) = rest.quotientAndRemainder(dividingBy: 100_000_000)
            UnsafeMutableRawPointer(text + position).storeBytes(of: eightDigits(eight), as: UInt64.self)
            rest = quotient
        }
        while position > 0 {
            position -= 1
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            text[position] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: digit)
            rest = quotient
        }
        return count
    }

    /// The digits of a number below 10^8, the first digit in the lowest byte. Splits into halves, quarters and single
    /// digits in parallel.
    private static func eightDigits(_ number: UInt64) -> UInt64 {
        let halves = number / 10_000 | (number % 10_000) << 32
        // n * 5243 >> 19 is n / 100 for every n below 10,000; n * 103 >> 10 is n / 10 for every n below 100.
        let hundreds = (halves &* 5_243) &>> 19 & 0x0000_007F_0000_007F
        let quarters = hundreds | (halves &- hundreds &* 100) &<< 16
        let tens = (quarters &* 103) &>> 10 & 0x000F_000F_000F_000F
        return (tens | (quarters &- tens &* 10) &<< 8) &+ 0x3030_3030_3030_3030
    }

    /// Reads decimal digits. Nil if the text is empty, has any other byte, or exceeds `max`.
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
