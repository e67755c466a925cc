import Numbers
import Testing

@Suite struct DecimalTests {
    private static let numbers: [UInt64] = [
        0, 1, 9, 10, 99, 100, 99_999_999, 100_000_000, 1_790_000_000, 9_999_999_999, 10_000_000_000, 1_790_000_000_123,
        UInt64(Int64.max), .max,
    ]

    @Test(arguments: numbers)
    func `A number is read as it was written`(number: UInt64) {
        let text = [UInt8](unsafeUninitializedCapacity: Decimal.digitsMax) { buffer, count in
            count = buffer.baseAddress.map { Decimal.write(number, to: $0) } ?? 0
        }
        #expect(String(decoding: text, as: UTF8.self) == String(number))
        #expect(text.withUnsafeBytes { Decimal.parse($0) } == number)
        #expect(Decimal.digitCount(of: number) == text.count)
    }

    @Test func `Leading zeros fill the width`() {
        let text = [UInt8](unsafeUninitializedCapacity: Decimal.digitsMax) { buffer, count in
            if let start = buffer.baseAddress { Decimal.write(1_234, digitCount: Decimal.digitsMax, to: start) }
            count = Decimal.digitsMax
        }
        #expect(String(decoding: text, as: UTF8.self) == "00000000000000001234")
        #expect(text.withUnsafeBytes { Decimal.parse($0) } == 1_234)
    }

    @Test(arguments: ["", "18446744073709551616", "99999999999999999999", "100000000000000000000", "1a", "-1", " 1"])
    func `A text that is no decimal number is refused`(text: String) {
        #expect(Array(text.utf8).withUnsafeBytes { Decimal.parse($0) } == nil)
    }

    @Test func `A number above the maximum is refused`() {
        #expect(Array("9".utf8).withUnsafeBytes { Decimal.parse($0, max: 8) } == nil)
        #expect(Array("8".utf8).withUnsafeBytes { Decimal.parse($0, max: 8) } == 8)
    }
}
