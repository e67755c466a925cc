import Numbers
import Testing

@testable import Delivery

/// A waiting list keeps its records in order, and a record waits in one list only. (R12)
struct WaitingListTests {
    @Test(arguments: UInt64(1)...50) func `A waiting list holds the same records as an array`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var records = Records(limit: 64)
        var free = (0..<8).map { _ in records.addSample() }
        var list = WaitingList()
        var expected: [UInt32] = []
        for _ in 0..<400 {
            switch random.next(below: 5) {
            case 0:
                guard let record = free.popLast() else { continue }
                list.append(record, in: &records)
                expected.append(record)
            case 1:
                guard let record = free.popLast() else { continue }
                list.prepend(record, in: &records)
                expected.insert(record, at: 0)
            case 2:
                let popped = list.popFirst(in: &records)
                #expect(popped == expected.first)
                if popped != nil { Self.giveBack(expected.removeFirst(), to: &free, in: &records) }
            case 3:
                guard !expected.isEmpty, let record = free.popLast() else { continue }
                list.replaceLast(by: record, in: &records)
                Self.giveBack(expected.removeLast(), to: &free, in: &records)
                expected.append(record)
            default:
                guard !expected.isEmpty else { continue }
                let position = Int(random.next(below: UInt64(expected.count)))
                list.remove(expected[position], in: &records)
                Self.giveBack(expected.remove(at: position), to: &free, in: &records)
            }
            #expect(list.first == expected.first ?? .max && list.last == expected.last ?? .max)
            #expect(list.isEmpty == expected.isEmpty)
        }
        while let record = list.popFirst(in: &records) { #expect(record == expected.removeFirst()) }
        #expect(expected.isEmpty)
    }

    /// Puts a removed record into another stage, so that the list accepts it again, and makes it available to
    /// the test.
    private static func giveBack(_ record: UInt32, to free: inout [UInt32], in records: inout Records) {
        records.enter(.current, record)
        free.insert(record, at: 0)
    }

    @Test func `A record waits in one list only`() async {
        await #expect(processExitsWith: .failure) {
            var records = Records(limit: 64)
            var list = WaitingList()
            let record = records.addSample()
            list.append(record, in: &records)
            list.append(record, in: &records)
        }
    }
}
