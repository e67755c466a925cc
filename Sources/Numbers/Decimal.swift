/// Reads and writes unsigned decimal numbers as ASCII digits. Allocates nothing.
public enum Decimal {
    /// The number of digits of the largest 64-bit number.
    @inlinable public static var digitsMax: Int { 20 }

    /// Reads a number.
    ///
    /// - Returns: the number; nil if a byte is not a digit, if there are no bytes or more than ``digitsMax``, or if the
    ///   number is above `max`.
    @inlinable
    public static func parse(_ text: UnsafeRawBufferPointer, max: UInt64 = .max) -> UInt64? {
        guard (1...digitsMax).contains(text.count) else { return nil }
        var value: UInt64 = 0
        for byte in text {
            let digit = byte &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            let (tens, overflowed) = value.multipliedReportingOverflow(by: 10)
            let (sum, carried) = tens.addingReportingOverflow(UInt64(digit))
            guard !overflowed && !carried else { return nil }
            value = sum
        }
        return value <= max ? value : nil
    }

    /// Returns the number of digits that ``write(_:to:)`` writes. The number 0 has one digit.
    @inlinable
    public static func digitCount(of value: UInt64) -> Int {
        var count = 1
        var rest = value
        while rest >= 10_000 {
            rest /= 10_000
            count &+= 4
        }
        return count &+ (rest >= 10 ? 1 : 0) &+ (rest >= 100 ? 1 : 0) &+ (rest >= 1_000 ? 1 : 0)
    }

    /// Writes a number without leading zeros.
    /// - Precondition: `destination` has room for ``digitsMax`` bytes.
    /// - Returns: the number of digits.
    public static func write(_ value: UInt64, to destination: UnsafeMutableRawPointer) -> Int {
        if value < 100_000_000 { return writeDigitPairs(value, to: destination) }
        // Most long numbers are times in milliseconds, with thirteen digits. So write the last eight digits at once,
        // and the digits before them in pairs.
        let (high, low) = value.quotientAndRemainder(dividingBy: 100_000_000)
        let count = writeDigitPairs(high, to: destination)
        (destination + count).storeBytes(of: eightASCIIDigits(low).littleEndian, as: UInt64.self)
        return count &+ 8
    }

    /// Writes a number without leading zeros, and returns the number of digits. Writes two digits at a time, from right
    /// to left.
    private static func writeDigitPairs(_ value: UInt64, to destination: UnsafeMutableRawPointer) -> Int {
        let count = digitCount(of: value)
        var position = count
        var rest = value
        while rest >= 10 {
            let index = Int(truncatingIfNeeded: rest % 100) &* 2
            rest /= 100
            position &-= 2
            destination.storeBytes(of: digitPairs.utf8Start[index], toByteOffset: position, as: UInt8.self)
            destination.storeBytes(of: digitPairs.utf8Start[index &+ 1], toByteOffset: position &+ 1, as: UInt8.self)
        }
        if position > 0 {
            let digit = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest)
            destination.storeBytes(of: digit, as: UInt8.self)
        }
        return count
    }

    /// The numbers 0 to 99, two digits each.
    private static let digitPairs: StaticString = """
        00010203040506070809101112131415161718192021222324\
        25262728293031323334353637383940414243444546474849\
        50515253545556575859606162636465666768697071727374\
        75767778798081828384858687888990919293949596979899
        """

    /// Writes the last `digitCount` digits of a number, with leading zeros. With four digits, 7 becomes `0007`, and
    /// 123456 becomes `3456`.
    @inlinable
    public static func write(_ value: UInt64, digitCount: Int, to destination: UnsafeMutableRawPointer) {
        var rest = value
        var position = digitCount
        // Most long numbers are times in milliseconds, with thirteen digits. So write eight digits at once while there
        // are eight.
        while position >= 8 {
            position &-= 8
            let (quotient, eight) = rest.quotientAndRemainder(dividingBy: 100_000_000)
            (destination + position).storeBytes(of: eightASCIIDigits(eight).littleEndian, as: UInt64.self)
            rest = quotient
        }
        while position > 0 {
            position &-= 1
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            let asciiDigit = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: digit)
            (destination + position).storeBytes(of: asciiDigit, as: UInt8.self)
            rest = quotient
        }
    }

    /// Returns a number below 10^8 as eight ASCII digits. The first digit is in the lowest byte.
    ///
    /// One 64-bit word has all parts of the number: 12345678 becomes 1234 and 5678, then 12, 34, 56 and 78, then single
    /// digits. In the last two steps, one multiplication divides all parts at once: `n * 10_486 >> 20` is `n / 100` for
    /// every `n` below 10,000, and `n * 103 >> 10` is `n / 10` for every `n` below 100.
    @inlinable
    @inline(__always)
    public static func eightASCIIDigits(_ value: UInt64) -> UInt64 {
        let fours = value / 10_000 | (value % 10_000) &<< 32
        let hundreds = (fours &* 10_486) &>> 20 & 0x0000_007F_0000_007F
        let pairs = hundreds | (fours &- hundreds &* 100) &<< 16
        let tens = (pairs &* 103) &>> 10 & 0x000F_000F_000F_000F
        return (tens | (pairs &- tens &* 10) &<< 8) | 0x3030_3030_3030_3030
    }
}
