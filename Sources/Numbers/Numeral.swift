/// Formats numbers for people.
public enum Numeral {
    /// Formats a number with a comma between thousands: 1234567 as `1,234,567`.
    public static func grouped(_ number: some BinaryInteger) -> String {
        let digits = String(number.magnitude)
        var text = number < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }

    /// Formats a number and what it counts: `1 record`, `1,234 records`.
    ///
    /// - Parameters:
    ///   - singular: the words after the number 1.
    ///   - plural: the words after every other number.
    package static func counted(_ number: some BinaryInteger, _ singular: String, _ plural: String) -> String {
        "\(grouped(number)) \(number == 1 ? singular : plural)"
    }

    /// Formats a number with one decimal place and a comma between thousands; `?` for a number that is not finite or
    /// has more than twelve digits before the decimal point.
    public static func oneDecimal(_ number: Double) -> String {
        guard number.isFinite, number.magnitude < 1e12 else { return "?" }
        let tenths = Int((number * 10).rounded())
        return "\(tenths < 0 ? "-" : "")\(grouped(abs(tenths) / 10)).\(abs(tenths) % 10)"
    }

    /// Formats hundredths, always with two decimal places: 7 as `0.07`.
    /// - Precondition: `hundredths` is not negative.
    public static func twoDecimals(hundredths: Int) -> String {
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)"
    }

    /// Formats `dividend / divisor` exactly, without floating point: `1.25`, `-0.000001`, `7`.
    ///
    /// - Parameter divisor: a power of ten.
    public static func exactQuotient(_ dividend: Int64, divisor: Int64) -> String {
        guard divisor > 1 else { return "\(dividend)" }
        let magnitude = dividend.magnitude
        let whole = "\(dividend < 0 ? "-" : "")\(magnitude / UInt64(divisor))"
        let rest = magnitude % UInt64(divisor)
        guard rest > 0 else { return whole }
        var digits = "\(UInt64(divisor) + rest)".dropFirst()
        while digits.last == "0" { digits.removeLast() }
        return "\(whole).\(digits)"
    }

    /// Formats `part` as a percentage of `whole`, with one decimal place. The text is empty if `whole` is not above 0.
    public static func percent(_ part: Int, of whole: Int) -> String {
        whole > 0 ? "\(oneDecimal(Double(part) * 100 / Double(whole))) %" : ""
    }

    /// Formats milliseconds as seconds with two decimal places, rounded down; a negative time as `0.00 s`.
    public static func seconds(milliseconds: Int64) -> String {
        "\(twoDecimals(hundredths: Int(clamping: max(0, milliseconds) / 10))) s"
    }

    /// Formats a duration, rounded down: `1.25 ms`, `250 ms`, `3.5 s`, `3 min 5 s`, `5 h 10 min`; from 48 hours on, `2
    /// days`.
    public static func duration(microseconds: Int64) -> String {
        switch microseconds {
        case ..<10_000: "\(exactQuotient(microseconds / 10, divisor: 100)) ms"
        case ..<1_000_000: "\(microseconds / 1_000) ms"
        case ..<60_000_000: "\(exactQuotient(microseconds / 10_000, divisor: 100)) s"
        case ..<3_600_000_000: "\(microseconds / 60_000_000) min \(microseconds / 1_000_000 % 60) s"
        case ..<172_800_000_000: "\(microseconds / 3_600_000_000) h \(microseconds / 60_000_000 % 60) min"
        default: "\(microseconds / 86_400_000_000) days"
        }
    }

    /// Formats bytes as whole mebibytes, rounded down.
    public static func mebibytes(_ bytes: Int64) -> String { "\(grouped(bytes >> 20)) MiB" }

    /// Formats bytes in a unit that fits, from B to GiB, rounded down.
    public static func bytes(_ bytes: Int64) -> String {
        switch bytes {
        case ..<10_240: "\(grouped(bytes)) B"
        case ..<10_485_760: "\(grouped(bytes / 1_024)) KiB"
        case ..<10_737_418_240: "\(grouped(bytes / 1_048_576)) MiB"
        default: "\(grouped(bytes / 1_073_741_824)) GiB"
        }
    }
}
