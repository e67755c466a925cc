import LiveActivity
import Testing

@testable import Delivery

@Suite struct ReceiptTimesTests {
    @Test func `Records of one moment share an entry`() {
        var times = ReceiptTimes()
        times.noteReceipt(10, milliseconds: 1_000, committableOffset: 10, isAlone: true)
        times.noteReceipt(11, milliseconds: 1_249, committableOffset: 10, isAlone: false)
        times.noteReceipt(12, milliseconds: 1_250, committableOffset: 10, isAlone: false)
        times.noteReceipt(13, milliseconds: 1_400, committableOffset: 10, isAlone: false)
        var found: [Int64?] = []
        for offset in 9...13 as ClosedRange<Int64> { found.append(times.milliseconds(of: offset)) }
        #expect(found == [nil, 1_000, 1_000, 1_250, 1_250])
    }

    @Test func `A record that is alone starts the list again`() {
        var times = ReceiptTimes()
        times.noteReceipt(1, milliseconds: 0, committableOffset: 1, isAlone: true)
        times.noteReceipt(2, milliseconds: 100, committableOffset: 2, isAlone: true)
        let (first, second) = (times.milliseconds(of: 1), times.milliseconds(of: 2))
        #expect(first == nil && second == 100)
    }

    /// One record waits for hours while later records come. Its time is kept exactly; the times of the later
    /// records are rounded.
    @Test func `The error grows only with the age`() throws {
        var times = ReceiptTimes()
        for offset in 0..<Int64(100_000) {
            times.noteReceipt(offset, milliseconds: offset * 100, committableOffset: 0, isAlone: offset == 0)
        }
        let oldest = times.milliseconds(of: 0)
        #expect(oldest == 0)
        let span: Int64 = 10_000_000
        for offset in stride(from: Int64(1), to: 100_000, by: 997) {
            let found = times.milliseconds(of: offset)
            let error = offset * 100 - (try #require(found))
            #expect((0...span / 32).contains(error), "\(offset): \(error)")
        }
    }

    /// Many records come, and each settles soon. Settled records free their room, so the times of the others stay exact
    /// to half a second.
    @Test func `Settled records make room`() throws {
        var times = ReceiptTimes()
        for offset in 0..<Int64(10_000) {
            times.noteReceipt(
                offset,
                milliseconds: offset * 100,
                committableOffset: max(0, offset - 50),
                isAlone: offset == 0
            )
            guard offset >= 50 else { continue }
            let oldest = offset - 50
            let found = times.milliseconds(of: oldest)
            let error = oldest * 100 - (try #require(found))
            #expect((0...500).contains(error), "\(offset): \(error)")
        }
    }
}
