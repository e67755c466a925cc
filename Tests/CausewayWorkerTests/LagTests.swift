import Kafka
import Testing

@testable import CausewayWorker

/// How many records of a partition a lane has not taken yet, and what it assumes while the number is unknown.
@Suite struct LagTests {
    private static let assumedRecordCount: Int64 = 10_001

    private func partitions(_ change: (inout LanePartitions.Entry) -> Void) -> LanePartitions {
        var entry = LanePartitions.Entry(
            indexInCore: 0,
            assignmentNumber: 1,
            topic: 0,
            partition: 3,
            behindAssumptionEndMilliseconds: 2_000
        )
        change(&entry)
        var partitions = LanePartitions()
        partitions.insert(entry)
        return partitions
    }

    private func untakenRecordCount(at nowMilliseconds: Int64, _ change: (inout LanePartitions.Entry) -> Void) -> (
        Int64, isGuess: Bool
    ) {
        partitions(change)
            .countUntakenRecords(at: 0, assumedRecordCount: Self.assumedRecordCount, nowMilliseconds: nowMilliseconds)
    }

    @Test func `The lag is the number of records that the lane has not read`() {
        #expect(untakenRecordCount(at: 0) { ($0.logEndOffset, $0.nextOffset) = (500, 120) } == (380, false))
        #expect(untakenRecordCount(at: 0) { ($0.logEndOffset, $0.nextOffset) = (500, 500) } == (0, false))
        // The Kafka thread reports the log's end only from time to time, so the lane may have read past it.
        #expect(untakenRecordCount(at: 0) { ($0.logEndOffset, $0.nextOffset) = (500, 900) } == (0, false))
    }

    @Test func `An unknown partition counts as far behind for a while`() {
        #expect(untakenRecordCount(at: 1_999) { _ in } == (Self.assumedRecordCount, true))
        #expect(untakenRecordCount(at: 2_000) { _ in } == (0, false))
        #expect(
            untakenRecordCount(at: 1_999) { $0.logEndOffset = 500 } == (Self.assumedRecordCount, true),
            "the lane has got none of its records yet"
        )
        #expect(
            untakenRecordCount(at: 2_000) { $0.logEndOffset = 500 } == (0, false),
            "no record has come in time, so the log counts as read to its end"
        )
        #expect(untakenRecordCount(at: 0) { $0.logEndOffset = 0 } == (0, false), "nothing was ever written to it")
    }
}

/// The lag that the Kafka thread computes from the end of the log.
@Suite struct AssignmentLagTests {
    private func partition(_ number: Int32) -> TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: 0), partition: number)
    }

    @Test func `The lag counts the records of the log that no lane has received`() {
        var table = AssignmentTable()
        for number in 0..<4 { _ = table.insert(partition(Int32(number)), lane: number % 2) }
        #expect(table.countRecordsToDeal(of: 0) == 0, "nothing is known")
        for (number, logEndOffset) in [(0, 10), (1, 100), (2, 50), (3, 6)] as [(Int32, Int64)] {
            let reportedEntry = table.noteLogEndToReport(logEndOffset, of: partition(number))
            #expect(reportedEntry?.lane == Int(number) % 2)
        }
        #expect(table.countRecordsToDeal(of: 0) == 0, "nothing was dealt: the positions are not known")
        for number in 0..<4 { table.noteDealtRecord(0, Int32(number), offset: 5) }
        #expect(table.countRecordsToDeal(of: 0) == 4 + 94 + 44)
        #expect(table.findPartitionsWithRecordsToDeal(of: 0) == [partition(0), partition(1), partition(2)])
        table.noteDealtRecord(0, 1, offset: 120)
        #expect(table.countRecordsToDeal(of: 0) == 4 + 44, "a lane that has read past the reported end has no lag")
        table.remove(partition(0))
        #expect(table.findPartitionsWithRecordsToDeal(of: 0) == [partition(2)])
        #expect(table.countRecordsToDeal(of: 1) == 0)
        #expect(table.findPartitionsWithRecordsToDeal(of: 1).isEmpty)
    }

    @Test func `A log that was read to its end has no lag`() {
        var table = AssignmentTable()
        _ = table.insert(partition(0), lane: 0)
        table.noteDealtRecord(0, 0, offset: 9)
        // Offset 10 is a transaction's marker, and at offset 11 an open transaction begins. So offset 9 is the last
        // record that can be read, although the log ends at 20.
        #expect(table.noteLogEndToReport(20, of: partition(0))?.reportedLogEndOffset == 20)
        #expect(table.countRecordsToDeal(of: 0) == 10)
        table.noteReachedLogEnd(of: partition(0), offset: 11)
        #expect(
            table.noteLogEndToReport(20, of: partition(0))?.reportedLogEndOffset == 10,
            "its lane gets the offset that was reached"
        )
        #expect(table.countRecordsToDeal(of: 0) == 0 && table.findPartitionsWithRecordsToDeal(of: 0).isEmpty)
        #expect(table.noteLogEndToReport(30, of: partition(0)) == nil, "its lane knows this already")
        table.noteDealtRecord(0, 0, offset: 11)
        #expect(table.noteLogEndToReport(30, of: partition(0))?.reportedLogEndOffset == 30)
        #expect(table.countRecordsToDeal(of: 0) == 18)
    }

    @Test func `The lag does not overflow, whatever number a broker reports`() {
        var table = AssignmentTable()
        for number in Int32(0)..<4 {
            _ = table.insert(partition(number), lane: 0)
            table.noteDealtRecord(0, number, offset: 0)
            _ = table.noteLogEndToReport(.max, of: partition(number))
        }
        #expect(table.countRecordsToDeal(of: 0) == .max)
        for number in Int32(0)..<4 { _ = table.noteLogEndToReport(.min, of: partition(number)) }
        #expect(table.countRecordsToDeal(of: 0) == 0)
        for offset in [Int64.min, -1, .max] { table.noteReachedLogEnd(of: partition(0), offset: offset) }
        #expect(table[partition(0)]?.logEndReachedAtOffset == -1)
        table.noteDealtRecord(0, 0, offset: AssignmentTable.validOffsets.upperBound)
        #expect(!AssignmentTable.validOffsets.contains(.max) && !AssignmentTable.validOffsets.contains(-1))
    }

    @Test func `Each new end of the log is reported to the lane once`() {
        var table = AssignmentTable()
        var reports: [Bool] = []
        func noteLogEndToReport(_ logEndOffset: Int64) {
            reports.append(table.noteLogEndToReport(logEndOffset, of: partition(0)) != nil)
        }
        noteLogEndToReport(1)
        _ = table.insert(partition(0), lane: 0)
        for logEndOffset in [1, 1, 2] as [Int64] { noteLogEndToReport(logEndOffset) }
        _ = table.insert(partition(0), lane: 0)
        noteLogEndToReport(2)
        #expect(
            reports == [false, true, false, true, true],
            "no lane has the partition; a new number; the same one; a new number; a new assignment has got no number"
        )
    }
}

/// The values of `causeway_consumer_lag_records`.
@Suite struct PartitionLagTests {
    private func consumerLag(unsettled: Int64? = nil, start: SeekPosition?, low: Int64? = 0, high: Int64?) -> Int64? {
        PartitionLag.countRecords(
            firstUnsettledOffset: unsettled,
            startPosition: start,
            logStartOffset: low,
            logEndOffset: high
        )
    }

    @Test func `The lag counts from the first unsettled record`() {
        #expect(consumerLag(unsettled: 40, start: .offset(10), high: 100) == 60)
        #expect(consumerLag(unsettled: 100, start: nil, high: 100) == 0)
        #expect(consumerLag(unsettled: 40, start: nil, low: 70, high: 100) == 30, "what was deleted is no record")
    }

    @Test func `Before the first record the lag counts from where reading begins`() {
        #expect(consumerLag(start: .offset(10), high: 100) == 90, "a partition that is stopped is behind")
        #expect(consumerLag(start: .offset(100), high: 100) == 0)
        #expect(consumerLag(start: .beginning, low: 30, high: 100) == 70)
        #expect(consumerLag(start: .beginning, low: nil, high: 100) == 100)
        #expect(consumerLag(start: .end, high: 100) == 0)
    }

    @Test func `After reading to the end of the log, only unsettled records count as lag`() {
        func lagAtLogEnd(unsettled: Int64?, dealtUpTo dealtEndOffset: Int64?) -> Int64? {
            let logEndReading = PartitionLag.LogEndReading(dealtEndOffset: dealtEndOffset, reachedAtOffset: 101)
            return PartitionLag.countRecords(
                firstUnsettledOffset: unsettled,
                startPosition: .offset(90),
                logStartOffset: 0,
                logEndOffset: 500,
                logEndReading: logEndReading
            )
        }
        #expect(lagAtLogEnd(unsettled: 100, dealtUpTo: 100) == 0, "at 100 is the marker of a transaction")
        #expect(lagAtLogEnd(unsettled: 97, dealtUpTo: 100) == 4)
        #expect(lagAtLogEnd(unsettled: nil, dealtUpTo: nil) == 0, "nothing but markers")
    }

    @Test func `The lag does not overflow, whatever offsets a log has`() {
        #expect(consumerLag(unsettled: 0, start: nil, low: .min, high: .max) == .max)
        #expect(consumerLag(start: .offset(-5), low: .min, high: .max) == .max)
        #expect(consumerLag(start: .offset(.min), low: .min, high: 7) == 7)
    }

    @Test func `An unknown lag is not zero`() {
        #expect(consumerLag(unsettled: 40, start: .offset(10), high: nil) == nil, "the end of the log")
        #expect(consumerLag(start: nil, high: 100) == nil, "where reading begins")
        #expect(consumerLag(start: .offset(500), high: 100) == nil, "another log than the one that was committed")
    }
}

@Suite struct FetchTriggerTests {
    private static let nearlyEmptyQueueRecordCount = FetchTrigger.nearlyEmptyQueueRecordsMax

    @Test func `While the queue is nearly empty, the broker threads are woken at intervals`() {
        var trigger = FetchTrigger()
        let moments = [0, 1, FetchTrigger.intervalMilliseconds - 1, FetchTrigger.intervalMilliseconds]
        let triggers = moments.map { moment in
            trigger.triggerIfDue(
                queuedRecordCount: Self.nearlyEmptyQueueRecordCount,
                recordToDealCount: 1_000_000,
                nowMilliseconds: 5_000 + moment
            )
        }
        #expect(triggers == [true, false, false, true])
    }

    @Test func `A full queue or a completely fetched log wakes no broker thread`() {
        var trigger = FetchTrigger()
        let isTriggeredIfFull = trigger.triggerIfDue(
            queuedRecordCount: Self.nearlyEmptyQueueRecordCount + 1,
            recordToDealCount: 1_000_000,
            nowMilliseconds: 1
        )
        let isTriggeredIfFetched = trigger.triggerIfDue(
            queuedRecordCount: 700,
            recordToDealCount: 700,
            nowMilliseconds: 1
        )
        let isTriggeredIfEmpty = trigger.triggerIfDue(queuedRecordCount: 0, recordToDealCount: 0, nowMilliseconds: 1)
        #expect(!isTriggeredIfFull && !isTriggeredIfFetched && !isTriggeredIfEmpty)
        let isTriggeredForOne = trigger.triggerIfDue(queuedRecordCount: 0, recordToDealCount: 1, nowMilliseconds: 1)
        #expect(isTriggeredForOne)
    }
}
