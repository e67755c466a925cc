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
        try findPositionOrError(firstMissingOffset, recentRecords, settledEndOffset: settledEndOffset, nil).get()
    }

    private func findPositionOrError(
        _ firstMissingOffset: Int64?,
        _ recentRecords: RereadingStart.RecentRecords,
        settledEndOffset: Int64,
        _ settledOffsetAboveLogEnd: RereadingStart.SettledOffsetAboveLogEnd?
    ) -> Result<SeekPosition?, KafkaError> {
        RereadingStart.findPosition(
            firstMissingOffset: firstMissingOffset,
            recentRecords: recentRecords,
            logOffsets: Self.logOffsets,
            settledEndOffset: settledEndOffset,
            settledOffsetAboveLogEnd: settledOffsetAboveLogEnd
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
        #expect(try findPosition(10, .all) == .beginning)
        #expect(try findPosition(nil, .all) == .beginning)
    }

    /// Kafka may delete the log's first records before the rereading begins. The partition would then stop at the
    /// offset of a deleted record.
    @Test func `A rereading that begins with the log names no offset`() throws {
        #expect(try findPosition(nil, .from(20)) == .beginning)
        #expect(try findPosition(20, .from(20)) == .beginning)
        #expect(try findPosition(21, .from(20)) == .offset(21))
        #expect(try findPosition(nil, .from(21)) == .offset(21))
    }

    /// The partition is stopped. A rereading would begin to read it again, without the records that are gone.
    @Test func `A partition whose settled offset is not in the log stays stopped`() throws {
        for recentRecords in [RereadingStart.RecentRecords.all, .from(50)] {
            for firstMissingOffset in [nil, 90, 101] as [Int64?] {
                for settledEndOffset in [100, 101] as [Int64] {
                    let positionOrError = findPositionOrError(
                        firstMissingOffset,
                        recentRecords,
                        settledEndOffset: settledEndOffset,
                        .isWrong
                    )
                    let error = #expect(throws: KafkaError.self) { try positionOrError.get() }
                    #expect(error?.isOffsetOutOfRange == true)
                }
            }
        }
        // The Kafka thread seeks to the settled offset, which Kafka has deleted. So the partition stays stopped.
        #expect(try findPosition(nil, .all, settledEndOffset: 10)?.limited(to: 10) == .offset(10))
    }

    /// The topic was deleted and created again, and Redis has lost writes since. The mark is from the earlier log.
    @Test func `A mark above the end of the log shows no record as stored`() throws {
        #expect(try findPosition(100, .all) == .offset(100))
        #expect(try findPosition(101, .all) == .beginning)
        #expect(try findPosition(101, .from(50)) == .offset(50))
    }

    /// A broker that has just become the leader may name a log end that is too low for a moment.
    @Test func `A log end that fetches have shown counts more than one that the leader names`() throws {
        func check(_ fetchedLogEndOffset: Int64, isStopped: Bool = false, foundForMilliseconds: Int64?)
            -> RereadingStart.SettledOffsetAboveLogEnd
        {
            .init(
                isStopped: isStopped,
                fetchedLogEndOffset: fetchedLogEndOffset,
                settledEndOffset: 101,
                foundForMilliseconds: foundForMilliseconds
            )
        }
        #expect(check(101, foundForMilliseconds: nil) == .isNew)
        #expect(check(101, foundForMilliseconds: 999) == .isNew)
        #expect(check(101, foundForMilliseconds: 1_000) == .isRight)
        #expect(check(100, foundForMilliseconds: 1_000) == .isWrong)
        #expect(check(101, isStopped: true, foundForMilliseconds: 1_000) == .isWrong)
        #expect(check(101, isStopped: true, foundForMilliseconds: nil) == .isWrong)

        let unclear = findPositionOrError(nil, .all, settledEndOffset: 101, .isNew)
        let error = #expect(throws: KafkaError.self) { try unclear.get() }
        #expect(error?.isOffsetOutOfRange == false)
        #expect(try findPositionOrError(90, .all, settledEndOffset: 101, .isRight).get() == .offset(90))
        // The mark is from this log, although it is above the end that the leader names.
        #expect(try findPositionOrError(101, .all, settledEndOffset: 101, .isRight).get() == .offset(101))
        // The brokers have not looked for recent records above the end that they name.
        #expect(try findPositionOrError(nil, .noRecords, settledEndOffset: 101, .isRight).get() == .offset(100))
    }

    @Test func `Without times in the log all records count as recent`() {
        #expect(RereadingStart.RecentRecords(firstRecentOffset: 50, firstTimedOffset: nil) == .from(50))
        #expect(RereadingStart.RecentRecords(firstRecentOffset: nil, firstTimedOffset: nil) == .all)
        #expect(RereadingStart.RecentRecords(firstRecentOffset: nil, firstTimedOffset: 20) == .noRecords)
    }
}
