import LiveActivity
import Testing

@testable import Delivery

@Suite struct PartitionLedgerTests {
    /// Receives offsets and says which were new.
    private func receive(_ offsets: [Int64], by ledger: inout PartitionLedger) -> [Bool] {
        offsets.map { ledger.receive($0) == .accepted }
    }

    @Test func settledInOrderTheOffsetMovesWithEach() {
        var ledger = PartitionLedger(windowOffsets: 64)
        #expect(receive([10, 11, 12], by: &ledger) == [true, true, true])
        #expect(ledger.committableOffset == 10)
        ledger.settle(10)
        #expect(ledger.committableOffset == 11)
        ledger.settle(11)
        ledger.settle(12)
        #expect(ledger.committableOffset == 13)
        #expect(ledger.nextOffset == 13)
    }

    @Test func settledOutOfOrderTheOffsetWaitsForTheFirst() {
        var ledger = PartitionLedger(windowOffsets: 64)
        _ = receive([0, 1, 2, 3], by: &ledger)
        ledger.settle(3)
        ledger.settle(1)
        #expect(ledger.committableOffset == 0)
        ledger.settle(0)
        #expect(ledger.committableOffset == 2)
        ledger.settle(2)
        #expect(ledger.committableOffset == 4)
    }

    @Test func offsetsThatNeverArriveCountAsSettled() {
        var ledger = PartitionLedger(windowOffsets: 64)
        _ = receive([5, 9], by: &ledger)
        ledger.settle(5)
        #expect(ledger.committableOffset == 9)
        ledger.settle(9)
        #expect(ledger.committableOffset == 10)
    }

    @Test func aGapBehindWhatIsAllSettledMayBeOfAnySize() {
        var ledger = PartitionLedger(windowOffsets: 64)
        _ = receive([5], by: &ledger)
        ledger.settle(5)
        #expect(ledger.hasRoom(for: 5_000_000_000) == true)
        #expect(receive([5_000_000_000], by: &ledger) == [true])
        #expect(ledger.committableOffset == 5_000_000_000)
    }

    @Test func theWindowIsCountedFromTheFirstThatIsNotSettled() {
        var ledger = PartitionLedger(windowOffsets: 64)
        #expect(ledger.hasRoom(for: 1_000) == true, "the first may be any")
        _ = receive([1_000], by: &ledger)
        #expect(ledger.hasRoom(for: 1_063) == true)
        #expect(ledger.hasRoom(for: 1_064) == false)
        _ = receive([1_001, 1_063], by: &ledger)
        ledger.settle(1_000)
        #expect(ledger.hasRoom(for: 1_064) == true)
        #expect(ledger.hasRoom(for: 1_065) == false)
        ledger.settle(1_001)
        #expect(ledger.committableOffset == 1_063)
        #expect(ledger.hasRoom(for: 1_126) == true)
        #expect(ledger.hasRoom(for: 1_127) == false)
    }

    @Test func whatIsDeliveredAgainIsToldApart() {
        var ledger = PartitionLedger(windowOffsets: 64)
        #expect(receive([7, 8, 7, 8, 3], by: &ledger) == [true, true, false, false, false])
        ledger.settle(7)
        #expect(receive([7], by: &ledger) == [false])
        #expect(ledger.committableOffset == 8)
        #expect(ledger.hasRoom(for: 3) == true, "what is let fall needs no room")
    }

    /// Against a model that keeps every offset.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func itKeepsStepWithASet(seed: UInt64) {
        var random = SimulationRandom(seed: seed)
        var ledger = PartitionLedger(windowOffsets: 128)
        var open: [Int64] = []
        var next = Int64(random.number(0...1_000))
        for _ in 0..<20_000 {
            if random.chance(500) {
                let offset = next + (random.chance(100) ? Int64(random.number(1...20)) : 0)
                let fits = open.first.map { offset - $0 < 128 } ?? true
                #expect(ledger.hasRoom(for: offset) == fits)
                guard fits else { continue }
                #expect(receive([offset], by: &ledger) == [true])
                open.append(offset)
                next = offset + 1
            } else if !open.isEmpty {
                ledger.settle(open.remove(at: random.number(0...min(open.count - 1, 30))))
            } else {
                continue
            }
            #expect(ledger.committableOffset == open.first ?? next)
            #expect(ledger.nextOffset == next)
        }
    }
}
