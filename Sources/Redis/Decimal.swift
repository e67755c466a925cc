/// Unsigned decimal numbers as ASCII, without allocation.
public enum Decimal {
    /// The number of digits of the largest 64-bit number.
    public static let digitsMax = 20

    /// Reads a number. Nil unless there is at least one byte, all bytes are digits, and the number fits.
    public static func parse(_ text: UnsafeRawBufferPointer) -> UInt64? {
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
        return value
    }

    public static func digits(of value: UInt64) -> Int {
        var count = 1
        var bound: UInt64 = 10
        while value >= bound {
            count += 1
            let (next, overflowed) = bound.multipliedReportingOverflow(by: 10)
            if overflowed { break }
            bound = next
        }
        return count
    }

    /// Writes exactly `digits` digits, with leading zeros.
    public static func write(_ value: UInt64, digits: Int, to destination: UnsafeMutableRawPointer) {
        var rest = value
        var position = digits
        while position > 0 {
            position -= 1
            let quotient = rest / 10
            destination.storeBytes(
                of: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest &- quotient &* 10),
                toByteOffset: position,
                as: UInt8.self
            )
            rest = quotient
        }
    }
}
