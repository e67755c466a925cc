import Numbers
import Testing

@testable import Delivery

/// A waiting list keeps its records in order, and a record waits in one list only. (R12)
struct WaitingListTests {
    @Test(arguments: UInt64(1)...50) func `A waiting list holds the same records as an array`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var records = Records(limit: 64)
        var freeRecords = (0..<8).map { _ in records.addSample() }
        var list = WaitingList()
        var expectedRecords: [RecordIndex] = []
        for _ in 0..<400 {
            switch random.next(below: 5) {
            case 0:
                guard let record = freeRecords.popLast() else { continue }
                list.append(record, in: &records)
                expectedRecords.append(record)
            case 1:
                guard let record = freeRecords.popLast() else { continue }
                list.prepend(record, in: &records)
                expectedRecords.insert(record, at: 0)
            case 2:
                let popped = list.popFirst(in: &records)
                #expect(popped == expectedRecords.first)
                if popped != nil {
                    Self.returnToFreeRecords(expectedRecords.removeFirst(), to: &freeRecords, in: &records)
                }
            case 3:
                guard !expectedRecords.isEmpty, let record = freeRecords.popLast() else { continue }
                list.replaceLast(by: record, in: &records)
                Self.returnToFreeRecords(expectedRecords.removeLast(), to: &freeRecords, in: &records)
                expectedRecords.append(record)
            default:
                guard !expectedRecords.isEmpty else { continue }
                let position = Int(random.next(below: UInt64(expectedRecords.count)))
                list.remove(expectedRecords[position], in: &records)
                Self.returnToFreeRecords(expectedRecords.remove(at: position), to: &freeRecords, in: &records)
            }
            #expect(list.head == expectedRecords.first)
            #expect(list.tail == expectedRecords.last)
            #expect(list.isEmpty == expectedRecords.isEmpty)
        }
        while let record = list.popFirst(in: &records) { #expect(record == expectedRecords.removeFirst()) }
        #expect(expectedRecords.isEmpty)
    }

    /// Puts a removed record into another stage, so that the list accepts it again, and makes it available to
    /// the test.
    private static func returnToFreeRecords(
        _ record: RecordIndex,
        to freeRecords: inout [RecordIndex],
        in records: inout Records
    ) {
        records.enter(record, .current)
        freeRecords.insert(record, at: 0)
    }

    @Test func `Appending a waiting record again traps`() async {
        await #expect(processExitsWith: .failure) {
            var records = Records(limit: 64)
            var list = WaitingList()
            let record = records.addSample()
            list.append(record, in: &records)
            list.append(record, in: &records)
        }
    }
}
