import Kafka
import Testing

@testable import CausewayLab

@Suite("The time that records wait for their commit")
struct CommitWaitMeterTests {
    private func longestWaitMilliseconds(_ polls: [(milliseconds: Int64, committed: Int64?, end: Int64)]) -> Int64 {
        var meter = CommitWaitMeter()
        for poll in polls {
            meter.addPoll(
                [.init(committedOffset: poll.committed, logEndOffset: poll.end)],
                atMilliseconds: poll.milliseconds
            )
        }
        return meter.longestWaitMilliseconds
    }

    @Test func `Nothing waits if everything is committed`() {
        #expect(longestWaitMilliseconds([(0, nil, 0), (1_000, 5, 5), (2_000, 9, 9)]) == 0)
    }

    @Test func `The oldest record without a commit has the longest wait`() {
        #expect(longestWaitMilliseconds([(0, nil, 3), (1_000, nil, 7), (4_000, nil, 9)]) == 4_000)
    }

    @Test func `A committed record no longer waits`() {
        #expect(longestWaitMilliseconds([(0, nil, 3), (1_000, nil, 7), (2_000, 3, 9), (4_000, 7, 12)]) == 2_000)
    }

    @Test func `Each partition's wait is measured separately`() {
        var meter = CommitWaitMeter()
        for (first, second, milliseconds) in [((0, 2), (0, 0), 0), ((2, 2), (0, 4), 5_000), ((2, 2), (0, 4), 6_500)] {
            let positions = [first, second]
                .map { GroupPositionReader.Position(committedOffset: Int64($0.0), logEndOffset: Int64($0.1)) }
            meter.addPoll(positions, atMilliseconds: Int64(milliseconds))
        }
        #expect(meter.longestWaitMilliseconds == 1_500)
    }
}
