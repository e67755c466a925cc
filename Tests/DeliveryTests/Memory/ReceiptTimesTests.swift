import LiveActivity
import Testing

@testable import Delivery

/// A ledger keeps receipt times for only some records of a partition. The other records get the time of an earlier one.
@Suite struct ReceiptTimesTests {
    @Test func `Records that arrive within 250 ms share one time`() {
        var times = ReceiptTimes()
        times.noteReceipt(10, atMilliseconds: 1_000, committableOffset: 10, areEarlierRecordsSettled: true)
        times.noteReceipt(11, atMilliseconds: 1_249, committableOffset: 10, areEarlierRecordsSettled: false)
        times.noteReceipt(12, atMilliseconds: 1_250, committableOffset: 10, areEarlierRecordsSettled: false)
        times.noteReceipt(13, atMilliseconds: 1_400, committableOffset: 10, areEarlierRecordsSettled: false)
        var receiptMilliseconds: [Int64?] = []
        for offset in 9...13 as ClosedRange<Int64> {
            receiptMilliseconds.append(times.receivedAtMonotonicMilliseconds(of: offset))
        }
        #expect(receiptMilliseconds == [nil, 1_000, 1_000, 1_250, 1_250])
    }

    @Test func `If all earlier records are settled, a new record starts the list again`() {
        var times = ReceiptTimes()
        times.noteReceipt(1, atMilliseconds: 0, committableOffset: 1, areEarlierRecordsSettled: true)
        times.noteReceipt(2, atMilliseconds: 100, committableOffset: 2, areEarlierRecordsSettled: true)
        let (first, second) = (
            times.receivedAtMonotonicMilliseconds(of: 1), times.receivedAtMonotonicMilliseconds(of: 2)
        )
        #expect(first == nil && second == 100)
    }

    /// One record waits for hours while later records come. Its time is kept exactly; the times of the later
    /// records are rounded.
    @Test func `The error of a time is small compared with the age of the oldest record`() throws {
        var times = ReceiptTimes()
        for offset in 0..<Int64(100_000) {
            times.noteReceipt(
                offset,
                atMilliseconds: offset * 100,
                committableOffset: 0,
                areEarlierRecordsSettled: offset == 0
            )
        }
        let oldest = times.receivedAtMonotonicMilliseconds(of: 0)
        #expect(oldest == 0)
        // The age of the oldest record. The error may be a 32nd part of it.
        let ageMilliseconds: Int64 = 10_000_000
        for offset in stride(from: Int64(1), to: 100_000, by: 997) {
            let receiptMilliseconds = times.receivedAtMonotonicMilliseconds(of: offset)
            let errorMilliseconds = offset * 100 - (try #require(receiptMilliseconds))
            #expect((0...ageMilliseconds / 32).contains(errorMilliseconds), "\(offset): \(errorMilliseconds)")
        }
    }

    /// Many records come, and each settles soon. Settled records free their room, so the times of the others stay exact
    /// to half a second.
    @Test func `Settled records make room for the exact times of others`() throws {
        var times = ReceiptTimes()
        for offset in 0..<Int64(10_000) {
            times.noteReceipt(
                offset,
                atMilliseconds: offset * 100,
                committableOffset: max(0, offset - 50),
                areEarlierRecordsSettled: offset == 0
            )
            guard offset >= 50 else { continue }
            let oldestOffset = offset - 50
            let receiptMilliseconds = times.receivedAtMonotonicMilliseconds(of: oldestOffset)
            let errorMilliseconds = oldestOffset * 100 - (try #require(receiptMilliseconds))
            #expect((0...500).contains(errorMilliseconds), "\(offset): \(errorMilliseconds)")
        }
    }
}
