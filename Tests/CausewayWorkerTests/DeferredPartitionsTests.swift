import Delivery
import Testing

@testable import CausewayWorker

/// When deferred records are read.
@Suite struct DeferredPartitionsTests {
    private static let now = Moment(monotonicMilliseconds: 5_000_123, wallMilliseconds: 1_790_000_000_000)

    private func wait(untilWallMilliseconds due: Int64?) -> Int64 {
        DeferredPartitions.due(atWallMilliseconds: due, now: Self.now) - Self.now.monotonicMilliseconds
    }

    /// The clock that says when it is due may be set back while it waits.
    @Test func whatIsLeftOfTheDelayIsWaitedForByTheMonotonicClock() {
        #expect(wait(untilWallMilliseconds: Self.now.wallMilliseconds + 29_500) == 29_500)
        #expect(DeferredPartitions.step(5_000_123 + 29_500) == 5_030_000)
        #expect(DeferredPartitions.step(5_030_000) == 5_030_000, "partitions go on at the same times")
    }

    @Test(arguments: [nil, Int64.min, -1, 0, now.wallMilliseconds]) func whatIsDueIsReadNow(due: Int64?) {
        #expect(wait(untilWallMilliseconds: due) == 0)
    }

    @Test(arguments: [Int64.max, now.wallMilliseconds + 86_400_000]) func noneIsWaitedForWithoutEnd(due: Int64) {
        #expect(wait(untilWallMilliseconds: due) == DeferredPartitions.delayMillisecondsMax)
    }
}
