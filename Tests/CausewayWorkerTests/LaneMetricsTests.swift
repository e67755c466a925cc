import Redis
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// The events that a lane counts itself. The lane has no servers, and the test calls what reports an event.
@Suite(.ownThread) struct LaneMetricsTests {
    @Test func `Only a connection to Redis that was lost before counts as a reconnection`() throws {
        try withIntake { _, setup, laneSetup in
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            lane.noteRedisReady()
            #expect(lane.publishedTotals()[.redisReconnects] == 0)
            lane.noteRedisDisconnection(RedisError(.closed))
            lane.noteRedisReady()
            #expect(lane.publishedTotals()[.redisReconnects] == 1)
        }
    }
}
