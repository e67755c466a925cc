import Audiences
import Delivery
import Reactor
import Redis
import Testbed
import Testing

@testable import CausewayWorker

/// What a lane tells its core for audiences about the connections to Redis. (R26)
@Suite(.ownThread) struct LaneStoreLossTests {
    /// A primary does not respond. A reading of the marks leaves it out. Then it restarts empty, and the lane connects.
    @Test(arguments: [true, false])
    func `In a cluster, a new connection makes older readings of the marks worthless`(isCluster: Bool) throws {
        try withIntake { _, setup, laneSetup in
            var laneSetup = laneSetup
            if isCluster { laneSetup.redisConfiguration.topology = .cluster }
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            func mayStoreLackMembers() -> Bool { lane.audiences.mayStoreLackMembers }
            lane.audiences.storeMayHaveLostDataAtMilliseconds = lane.now.monotonicMilliseconds - 1_500
            lane.audiences.membersLastCompleteAtMilliseconds = lane.now.monotonicMilliseconds - 500
            #expect(!mayStoreLackMembers())
            LaneStoreHandler(lane: lane).audienceStoreReady()
            #expect(mayStoreLackMembers() == isCluster)
            lane.audiences.membersLastCompleteAtMilliseconds = lane.now.monotonicMilliseconds + 1
            #expect(!mayStoreLackMembers(), "the next reading of the marks has this server's")
        }
    }
}
