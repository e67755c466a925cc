import Numbers
import Testing

@Suite struct NumeralTests {
    @Test(arguments: [
        (Int64(0), "0 ms"), (1_230, "1.23 ms"), (162_400, "162 ms"), (1_500_000, "1.5 s"), (61_000_000, "1 min 1 s"),
        (7_260_000_000, "2 h 1 min"), (259_200_000_000, "3 days"),
    ])
    func `Durations have a suitable unit`(_ microseconds: Int64, _ text: String) {
        #expect(Numeral.duration(microseconds: microseconds) == text)
    }

    @Test(arguments: [
        (Int64(0), Int64(1_000_000), "0"), (1, 1_000_000, "0.000001"), (-1, 1_000_000, "-0.000001"),
        (1_250_000, 1_000_000, "1.25"),
        (7, 1, "7"), (.min, 1_000, "-9223372036854775.808"), (5_000, 1_000, "5"),
    ])
    func `An exact quotient has all its decimals`(_ dividend: Int64, _ divisor: Int64, _ text: String) {
        #expect(Numeral.exactQuotient(dividend, divisor: divisor) == text)
    }

    @Test(arguments: [
        (0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567"), (.min, "-9,223,372,036,854,775,808"),
    ])
    func `Thousands are grouped`(number: Int, text: String) {
        #expect(Numeral.grouped(number) == text)
    }

    @Test(arguments: [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1_234, "1,234 records")])
    func `Only one is singular`(number: Int, text: String) {
        #expect(Numeral.counted(number, "record", "records") == text)
    }

    @Test(arguments: [(0.0, "0.0"), (9.96, "10.0"), (1_234.56, "1,234.6"), (Double.infinity, "?")])
    func `A number is rounded to one decimal`(number: Double, text: String) {
        #expect(Numeral.oneDecimal(number) == text)
    }

    @Test(arguments: [(0, "0.00"), (7, "0.07"), (1_250, "12.50")])
    func `Hundredths have two decimals`(hundredths: Int, text: String) {
        #expect(Numeral.twoDecimals(hundredths: hundredths) == text)
    }
}
