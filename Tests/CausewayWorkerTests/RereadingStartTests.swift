import Kafka
import Testing

@testable import CausewayWorker

/// Where a partition is read again from, given what the brokers say about its log. (R24)
@Suite struct RereadingStartTests {
    private static let logOffsets: Range<Int64> = 20..<100

    private func findPosition(
        _ firstMissingOffset: Int64?,
        _ recentRecords: RereadingStart.RecentRecords,
        settledEndOffset: Int64 = 100
    ) throws -> SeekPosition? {
        try findPositionOrError(firstMissingOffset, recentRecords, settledEndOffset: settledEndOffset).get()
    }

    private func findPositionOrError(
        _ firstMissingOffset: Int64?,
        _ recentRecords: RereadingStart.RecentRecords,
        settledEndOffset: Int64,
        wasAboveLogEnd: Bool = false
    ) -> Result<SeekPosition?, KafkaError> {
        RereadingStart.findPosition(
            firstMissingOffset: firstMissingOffset,
            recentRecords: recentRecords,
            logOffsets: Self.logOffsets,
            settledEndOffset: settledEndOffset,
            wasAboveLogEnd: wasAboveLogEnd
        )
    }

    @Test func `A rereading begins at the first missing record that is recent enough`() throws {
        #expect(try findPosition(90, .from(50)) == .offset(90))
        #expect(try findPosition(40, .from(50)) == .offset(50))
        #expect(try findPosition(nil, .from(50)) == .offset(50))
        #expect(try findPosition(90, .noRecords) == nil)
        #expect(try findPosition(nil, .noRecords) == nil)
    }

    /// A partition that is sought to an offset before its log would stop.
    @Test func `A rereading never begins before the log`() throws {
        #expect(try findPosition(90, .all) == .offset(90))
        #expect(try findPosition(10, .all) == .offset(20))
        #expect(try findPosition(nil, .all) == .beginning)
    }

    /// The partition is stopped. A rereading would begin to read it again, without the records that are gone.
    @Test func `A partition whose settled offset is not in the log stays stopped`() throws {
        for recentRecords in [RereadingStart.RecentRecords.all, .from(50)] {
            for firstMissingOffset in [nil, 90, 101] as [Int64?] {
                let positionOrError = findPositionOrError(firstMissingOffset, recentRecords, settledEndOffset: 101)
                #expect(throws: KafkaError.self) { try positionOrError.get() }
            }
        }
        // Since the first attempt, the log has grown to the settled offset.
        let positionOrError = findPositionOrError(nil, .all, settledEndOffset: 100, wasAboveLogEnd: true)
        #expect(throws: KafkaError.self) { try positionOrError.get() }
        // The Kafka thread seeks to the settled offset, which Kafka has deleted. So the partition stays stopped.
        #expect(try findPosition(nil, .all, settledEndOffset: 10)?.limited(to: 10) == .offset(10))
    }

    /// The topic was deleted and created again, and Redis has lost writes since. The mark is from the earlier log.
    @Test func `A mark above the end of the log shows no record as stored`() throws {
        #expect(try findPosition(100, .all) == .offset(100))
        #expect(try findPosition(101, .all) == .offset(20))
        #expect(try findPosition(101, .from(50)) == .offset(50))
    }

    @Test func `Without times in the log all records count as recent`() {
        #expect(RereadingStart.RecentRecords(firstRecentOffset: 50, firstTimedOffset: nil) == .from(50))
        #expect(RereadingStart.RecentRecords(firstRecentOffset: nil, firstTimedOffset: nil) == .all)
        #expect(RereadingStart.RecentRecords(firstRecentOffset: nil, firstTimedOffset: 20) == .noRecords)
    }
}
