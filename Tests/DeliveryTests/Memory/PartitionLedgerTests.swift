import Glibc
import LiveActivity
import Numbers
import Testbed
import Testing

@testable import Delivery

/// The committable offset of a partition passes only settled records. The commit's metadata names settled records above
/// this offset, and the next owner skips them. (R10)
@Suite struct PartitionLedgerTests {
    /// Receives each offset and returns whether the ledger accepted it.
    private func receive(_ offsets: [Int64], by ledger: inout PartitionLedger) -> [Bool] {
        offsets.map { ledger.receive($0) == .accepted }
    }

    /// Replaces the ledger with that of the partition's next owner, which receives all offsets again from the committed
    /// one on. Checks that the new ledger skips the offsets that were settled and are in the metadata, and accepts all
    /// others. If all offsets are committed, the ledger stays.
    private func replaceWithNextOwner(
        _ ledger: inout PartitionLedger,
        unsettledOffsets: inout [Int64],
        unnamedOffsets: inout Set<Int64>,
        nextOffset: Int64
    ) {
        let committed = ledger.committableOffset
        let text = SettledOffsetsText.encode(ledger.settledRanges, above: committed)
        let ranges = text.withUnsafeBytes { SettledOffsetsText.decode($0, committedOffset: committed) }
        var nextLedger = PartitionLedger(spanOffsetCount: ledger.spanOffsetCount)
        nextLedger.restoreSettledOffsets(at: committed, settled: ranges ?? [])
        #expect(nextLedger.settledRanges == ledger.settledRanges)
        let acceptedOffsets = (unsettledOffsets + unnamedOffsets.filter { $0 > committed }).sorted()
        for offset in committed..<nextOffset {
            #expect(
                nextLedger.receive(offset) == (acceptedOffsets.contains(offset) ? .accepted : .settledByPreviousOwner)
            )
        }
        if committed < nextOffset {
            #expect(nextLedger.committableOffset == committed)
            #expect(nextLedger.settledRanges == ledger.settledRanges)
            ledger = nextLedger
            (unsettledOffsets, unnamedOffsets) = (acceptedOffsets, [])
        }
    }

    @Test func `If records settle in order, the committable offset moves with each`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        #expect(receive([10, 11, 12], by: &ledger) == [true, true, true])
        #expect(ledger.committableOffset == 10)
        ledger.settle(10)
        #expect(ledger.committableOffset == 11)
        ledger.settle(11)
        ledger.settle(12)
        #expect(ledger.committableOffset == 13)
        #expect(ledger.nextOffset == 13)
    }

    @Test func `If records settle out of order, the committable offset waits for the first`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        _ = receive([0, 1, 2, 3], by: &ledger)
        ledger.settle(3)
        ledger.settle(1)
        #expect(ledger.committableOffset == 0)
        ledger.settle(0)
        #expect(ledger.committableOffset == 2)
        ledger.settle(2)
        #expect(ledger.committableOffset == 4)
    }

    @Test func `Offsets that never arrive count as settled`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        _ = receive([5, 9], by: &ledger)
        ledger.settle(5)
        #expect(ledger.committableOffset == 9)
        ledger.settle(9)
        #expect(ledger.committableOffset == 10)
    }

    @Test func `A gap after settled records may have any size`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        _ = receive([5], by: &ledger)
        ledger.settle(5)
        #expect(ledger.hasRoom(for: 5_000_000_000) == true)
        #expect(receive([5_000_000_000], by: &ledger) == [true])
        #expect(ledger.committableOffset == 5_000_000_000)
    }

    @Test func `The span is counted from the first unsettled offset`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        #expect(ledger.hasRoom(for: 1_000) == true, "the first offset may be any")
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

    @Test func `Records that are delivered again are recognized`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        #expect(receive([7, 8, 7, 8, 3], by: &ledger) == [true, true, false, false, false])
        ledger.settle(7)
        #expect(receive([7], by: &ledger) == [false])
        #expect(ledger.committableOffset == 8)
        #expect(ledger.hasRoom(for: 3) == true, "an offset that was seen before needs no room")
    }

    @Test func `Records that a previous owner settled are skipped`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        ledger.restoreSettledOffsets(at: 10, settled: [12..<14, 15..<16])
        #expect(
            ledger.settledRanges == [12..<14, 15..<16],
            "the metadata keeps these offsets before the first record is received"
        )
        #expect(
            [10, 11, 12, 13].map { ledger.receive($0) } == [
                .accepted, .accepted, .settledByPreviousOwner, .settledByPreviousOwner,
            ]
        )
        #expect(ledger.committableOffset == 10)
        #expect(ledger.settledRanges == [12..<14, 15..<16])
        ledger.settle(10)
        ledger.settle(11)
        #expect(ledger.committableOffset == 14)
        #expect(
            [14, 15, 16, 15].map { ledger.receive($0) } == [
                .accepted, .settledByPreviousOwner, .accepted, .alreadyReceived,
            ]
        )
        ledger.settle(14)
        #expect(ledger.committableOffset == 16)
        #expect(ledger.settledRanges == [])
    }

    @Test func `The committable offset moves over skipped records that come first`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        ledger.restoreSettledOffsets(at: 10, settled: [10..<12])
        #expect([10, 11].map { ledger.receive($0) } == [.settledByPreviousOwner, .settledByPreviousOwner])
        #expect(ledger.committableOffset == 12)
    }

    @Test func `Settled offsets that never arrive are forgotten`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        ledger.restoreSettledOffsets(at: 10, settled: [11..<40])
        #expect(ledger.receive(100) == .accepted, "compaction has removed the records 10 to 99")
        #expect(ledger.committableOffset == 100)
        for offset in Int64(101)..<164 { #expect(ledger.receive(offset) == .accepted) }
        #expect(ledger.settledRanges == [])
    }

    @Test func `If the log begins again at 0, no offset counts as settled`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        ledger.restoreSettledOffsets(at: 1_000, settled: [1_002..<1_010])
        #expect(ledger.receive(0) == .accepted)
        #expect(ledger.committableOffset == 0)
        #expect(ledger.settledRanges == [])
    }

    @Test func `Settled offsets beyond the span are not restored`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        ledger.restoreSettledOffsets(at: 10, settled: [11..<200])
        #expect(ledger.settledRanges == [11..<74])
    }

    @Test func `Records left out of the metadata are read again with the records below`() {
        var ledger = PartitionLedger(spanOffsetCount: 64)
        _ = receive([10, 11, 12, 13, 14], by: &ledger)
        for offset in Int64(11)...14 { ledger.settle(offset, isLeftOutOfMetadata: offset == 13) }
        #expect(ledger.settledRanges == [11..<13, 14..<15])
        ledger.settle(10)
        #expect(ledger.committableOffset == 15)
        #expect(ledger.settledRanges == [])
    }

    /// A worker may have thousands of partitions, and usually each of them has few unsettled records. (R4)
    @Test func `A ledger takes memory only for the offsets that it must tell apart`() {
        var ledger = PartitionLedger(spanOffsetCount: 1 << 20)
        #expect(ledger.ringBytes == 8)
        let lastOffset = Int64(1 << 20) - 1
        _ = receive([0, 999], by: &ledger)
        #expect(ledger.ringBytes == 128)
        _ = receive([lastOffset], by: &ledger)
        #expect(ledger.ringBytes == 128 << 10)
        ledger.settle(999, isLeftOutOfMetadata: true)
        #expect(ledger.ringBytes == 256 << 10)
        ledger.settle(0)
        #expect(ledger.committableOffset == lastOffset)
        ledger.settle(lastOffset)
        #expect(ledger.committableOffset == lastOffset + 1)
        #expect(ledger.ringBytes == 4 << 10, "most of the memory is freed when all records are settled")
    }

    /// The ledger's rings grow while some of their offsets are settled. They shrink at the end of each round.
    @Test func `A ledger that grows and shrinks confuses no offsets`() {
        var ledger = PartitionLedger(spanOffsetCount: 1 << 17)
        var firstOffset: Int64 = 1_000_003
        for count in [100, 70_000, 3_000, 100_000] as [Int64] {
            var acceptedCount: Int64 = 0
            for offset in firstOffset..<firstOffset + count {
                if ledger.receive(offset) == .accepted { acceptedCount += 1 }
                // A third of the records settle at once, and each second of these is left out of the metadata.
                guard offset > firstOffset, offset.isMultiple(of: 3) else { continue }
                ledger.settle(offset, isLeftOutOfMetadata: offset.isMultiple(of: 2))
            }
            #expect(acceptedCount == count)
            let namedOffsets = ledger.settledRanges.flatMap { Array($0) }
            #expect(namedOffsets.allSatisfy { $0.isMultiple(of: 3) && !$0.isMultiple(of: 2) })
            #expect(namedOffsets.count >= Int(min(count, 20_000)) / 6 - 1)
            for offset in firstOffset..<firstOffset + count where offset == firstOffset || !offset.isMultiple(of: 3) {
                ledger.settle(offset)
            }
            firstOffset += count
            #expect(ledger.committableOffset == firstOffset)
            #expect(ledger.settledRanges == [])
        }
        #expect(ledger.ringBytes == 4 << 10)
    }

    /// In a backlog whose commands bring tokens, nearly every offset is left out of the metadata. If each settlement
    /// looped over these offsets, the test would take thousands of times as long. The test measures the thread's own
    /// CPU time, which other work on the machine hardly changes.
    @Test func `Records left out of the metadata cost about as much as others`() {
        let namedNanoseconds = processorNanoseconds(namesEveryOffset: true)
        let unnamedNanoseconds = processorNanoseconds(namesEveryOffset: false)
        #expect(
            unnamedNanoseconds < namedNanoseconds * 200,
            "named in the metadata: \(namedNanoseconds) ns, left out: \(unnamedNanoseconds) ns"
        )
    }

    private func threadNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    private func processorNanoseconds(namesEveryOffset: Bool) -> UInt64 {
        let count: Int64 = 16_384
        var ledger = PartitionLedger(spanOffsetCount: Int(count))
        _ = receive(Array(0..<count), by: &ledger)
        let beginNanoseconds = threadNanoseconds()
        // The worst case: if every second offset is left out of the metadata, each named offset is a range of its own.
        for offset in 1..<count {
            ledger.settle(offset, isLeftOutOfMetadata: !namesEveryOffset && !offset.isMultiple(of: 2))
        }
        #expect(ledger.settledRanges.reduce(0) { $0 + $1.count } >= count / 2 - 1)
        return threadNanoseconds() - beginNanoseconds
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>) func `The ledger agrees with a list of the unsettled offsets`(
        seed: UInt64
    ) {
        var random = SplitMix64(simulationSeed: seed)
        var ledger = PartitionLedger(spanOffsetCount: 128)
        var unsettledOffsets: [Int64] = []
        var unnamedOffsets: Set<Int64> = []
        var nextOffset = Int64(random.number(0...1_000))
        for _ in 0..<20_000 {
            if random.chance(500) {
                let offset = nextOffset + (random.chance(100) ? Int64(random.number(1...20)) : 0)
                let hasRoom = unsettledOffsets.first.map { offset - $0 < 128 } ?? true
                #expect(ledger.hasRoom(for: offset) == hasRoom)
                guard hasRoom else { continue }
                #expect(receive([offset], by: &ledger) == [true])
                unsettledOffsets.append(offset)
                nextOffset = offset + 1
            } else if !unsettledOffsets.isEmpty {
                let offset = unsettledOffsets.remove(at: random.number(0...min(unsettledOffsets.count - 1, 30)))
                let isLeftOutOfMetadata = random.chance(200)
                ledger.settle(offset, isLeftOutOfMetadata: isLeftOutOfMetadata)
                if isLeftOutOfMetadata { unnamedOffsets.insert(offset) }
            } else {
                continue
            }
            #expect(ledger.committableOffset == unsettledOffsets.first ?? nextOffset)
            #expect(ledger.nextOffset == nextOffset)
            if random.chance(20) {
                replaceWithNextOwner(
                    &ledger,
                    unsettledOffsets: &unsettledOffsets,
                    unnamedOffsets: &unnamedOffsets,
                    nextOffset: nextOffset
                )
            }
        }
    }
}
