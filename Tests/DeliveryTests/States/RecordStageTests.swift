import Testing

@testable import Delivery

/// A record changes its stage only as listed, gets one outcome, and is counted by its stage. (R7)
struct RecordStageTests {
    private static let stages = (UInt8.min...UInt8.max).compactMap(RecordStage.init(rawValue:))

    @Test func `Each stage can be reached, and leads to settled or dropped`() {
        for stage in Self.stages {
            #expect(Self.reachableStages(from: .received).contains(stage), "\(stage)")
            #expect(!Self.reachableStages(from: stage).isDisjoint(with: [.settled, .dropped]), "\(stage)")
        }
    }

    private static func reachableStages(from first: RecordStage) -> Set<RecordStage> {
        var reachedStages: Set = [first]
        var stagesToFollow = [first]
        while let stage = stagesToFollow.popLast() {
            for next in stages where stage.canChange(to: next) && reachedStages.insert(next).inserted {
                stagesToFollow.append(next)
            }
        }
        return reachedStages
    }

    @Test func `A record gets its outcome only once`() {
        for stage in Self.stages where stage.awaitsAcknowledgements || stage == .settled || stage == .dropped {
            // A record in the stage `deferring` has no outcome yet. It may finish if Kafka does not accept the deferred
            // record.
            #expect(!stage.canChange(to: .finished) || stage == .deferring, "\(stage)")
        }
    }

    @Test func `A freed record enters no other stage`() {
        for stage in Self.stages {
            #expect(!RecordStage.settled.canChange(to: stage) && !RecordStage.dropped.canChange(to: stage), "\(stage)")
        }
    }

    @Test func `Records that await acknowledgements are counted`() {
        var records = Records(limit: 64)
        let (first, second) = (records.addSample(), records.addSample())
        records.enter(first, .finished)
        #expect(records.unacknowledgedCount == 1)
        records.enter(first, .settlingHeldStart)
        records.enter(second, .waiting)
        records.enter(second, .refunding)
        #expect(records.unacknowledgedCount == 2)
        records.enter(first, .awaitingRedis)
        records.enter(second, .dropped)
        #expect(records.unacknowledgedCount == 0)
        records.enter(first, .settled)
        records.free(first)
        records.free(second)
        #expect(records.count == 0)
    }

    @Test func `A second outcome traps`() async {
        await #expect(processExitsWith: .failure) {
            var records = Records(limit: 64)
            let record = records.addSample()
            records.enter(record, .finished)
            records.enter(record, .finished)
        }
    }

    @Test func `Freeing a record before its end traps`() async {
        await #expect(processExitsWith: .failure) {
            var records = Records(limit: 64)
            let record = records.addSample()
            records.enter(record, .finished)
            records.free(record)
        }
    }

    @Test func `Giving a rider a rider of its own traps`() async {
        await #expect(processExitsWith: .failure) {
            var records = Records(limit: 64)
            let (first, second, third) = (records.addSample(), records.addSample(), records.addSample())
            records.setRider(of: second, to: first)
            records.setRider(of: third, to: second)
        }
    }

    @Test func `A count of superseded commands stays at its maximum`() {
        var count = SupersededCount()
        count.addCommand(withCount: SupersededCount())
        #expect(count.commandCount == 1)
        var sum = count
        for _ in 0..<40 { sum.addCommand(withCount: sum) }
        #expect(sum.commandCount == .max)
    }
}

extension Records {
    /// Allocates an empty command record, and returns its index.
    mutating func addSample() -> RecordIndex {
        allocate(
            RecordSlot(
                kind: .command,
                ledgerPlace: RecordLedgerPlace(partitionIndex: 0, assignmentEpoch: 1, offset: 0),
                source: RecordSource(offset: 0, partition: 0, topic: .commands),
                times: RecordTimes(receivedAtWallMilliseconds: 0, recordTimestampMilliseconds: 0)
            )
        )
    }
}
