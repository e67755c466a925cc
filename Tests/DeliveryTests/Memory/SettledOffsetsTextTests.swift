import Numbers
import Testbed
import Testing

@testable import Delivery

/// A commit's metadata keeps the settled offsets above the committed one, as far as they fit. Its text has a limited
/// length and the same form in all releases, and faulty text does no harm. (R10)
@Suite struct SettledOffsetsTextTests {
    private func encode(_ ranges: [Range<Int64>], above offset: Int64) -> String {
        String(decoding: SettledOffsetsText.encode(ranges, above: offset), as: UTF8.self)
    }

    private func decode(_ text: String, at offset: Int64) -> [Range<Int64>]? { decode(Array(text.utf8), at: offset) }

    private func decode(_ text: [UInt8], at offset: Int64) -> [Range<Int64>]? {
        text.withUnsafeBytes { SettledOffsetsText.decode($0, committedOffset: offset) }
    }

    private func makeRanges(
        _ count: Int64,
        every distance: Int64,
        of length: Int64,
        above base: Int64
    ) -> [Range<Int64>] {
        (0..<count)
            .map { (number: Int64) -> Range<Int64> in
                let first = base + number * distance + 1
                return first..<first + length
            }
    }

    /// Workers of different releases read each other's commits, so every release must read this text.
    @Test func `The text's form stays the same in all releases`() {
        #expect(encode([], above: 7) == "")
        #expect(encode([1_000_000..<2_000_000], above: 999_999) == "1r_h@m0L24?@")
        #expect(encode([1..<2, 3..<4, 5..<7, 9..<10], above: 0) == "1b06X2")
        #expect(decode("1r_h@m0L24?@", at: 999_999) == [1_000_000..<2_000_000])
        #expect(decode("1b06X2", at: 0) == [1..<2, 3..<4, 5..<7, 9..<10])
    }

    @Test func `Text that was written for another committed offset is refused`() {
        let text = encode([105..<110], above: 100)
        #expect(decode(text, at: 100) == [105..<110])
        #expect(decode(text, at: 101) == nil)
        #expect(decode(text, at: 0) == nil)
    }

    @Test(arguments: [
        "1", "1r", "2r@0@", "1x0024", "0", "NaN", "1r\u{7f}", "1r00 ", "{\"offset\":1}", "1rooooooooooooooooooooo",
        "1b",
    ])
    func `Garbage is refused`(text: String) { #expect(decode(text, at: 0) == nil) }

    @Test func `Text longer than the limit is refused`() {
        let longText = "1b" + String(repeating: "0", count: SettledOffsetsText.bytesMax)
        #expect(decode(longText, at: 0) == nil)
    }

    @Test func `Empty text means that nothing above the committed offset is settled`() {
        #expect(decode("", at: 5) == [])
    }

    @Test func `The highest offsets are left out if the text gets too long`() {
        let everySecondOffset = makeRanges(30_000, every: 2, of: 1, above: 0)
        let text = SettledOffsetsText.encode(everySecondOffset, above: 0)
        #expect(text.count <= SettledOffsetsText.bytesMax)
        let decodedRanges = decode(text, at: 0) ?? []
        #expect(decodedRanges == Array(everySecondOffset.prefix(decodedRanges.count)))
        #expect(decodedRanges.count > 12_000, "each offset takes one bit")

        let longRanges = makeRanges(3_000, every: 1_000, of: 999, above: 0)
        let longRangesText = SettledOffsetsText.encode(longRanges, above: 0)
        #expect(longRangesText.count <= SettledOffsetsText.bytesMax)
        let decodedLongRanges = decode(longRangesText, at: 0) ?? []
        #expect(decodedLongRanges == Array(longRanges.prefix(decodedLongRanges.count)))
        #expect(decodedLongRanges.count > 900, "each range takes three bytes")
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>) func `Decoding gives the ranges that were encoded`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        let committedOffset = random.chance(500) ? Int64(random.number(0...100)) : Int64(random.number(0...1 << 50))
        var ranges: [Range<Int64>] = []
        var offset = committedOffset + Int64(random.number(0...1))
        let (gapMax, lengthMax) = ([1, 5, 3_000][random.number(0...2)], [1, 5, 3_000][random.number(0...2)])
        for _ in 0..<random.number(0...400) {
            let end = offset + Int64(random.number(1...lengthMax))
            ranges.append(offset..<end)
            offset = end + Int64(random.number(1...gapMax))
        }
        let text = SettledOffsetsText.encode(ranges, above: committedOffset)
        #expect(text.count <= SettledOffsetsText.bytesMax)
        #expect(text.allSatisfy { (32..<127).contains($0) })
        #expect(decode(text, at: committedOffset) == ranges)
    }

    /// Damaged text is rejected, or gives ranges in order, none below the committed offset.
    @Test(arguments: 1...200 as ClosedRange<UInt64>) func `Damaged text is read without harm`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        let committedOffset = Int64(random.number(0...100_000))
        let ranges = makeRanges(50, every: 7, of: 4, above: committedOffset)
        for _ in 0..<100 {
            var text = SettledOffsetsText.encode(ranges, above: committedOffset)
            for _ in 0..<random.number(1...4) {
                text[random.number(0...text.count - 1)] = UInt8(random.number(0...255))
            }
            guard let decodedRanges = decode(text, at: committedOffset) else { continue }
            var previousEnd = committedOffset - 1
            for range in decodedRanges {
                #expect(range.lowerBound > previousEnd || range.lowerBound == committedOffset)
                previousEnd = range.upperBound
            }
        }
    }
}
