import ActivityStore
import LiveActivity
import Redis

/// Passes the stores' calls to a lane. The stores hold their handler weakly, and objects with weak references
/// are retained more slowly. The lane is retained for every push, so the stores hold this relay instead.
final class LaneStoreRelay {
    private unowned let lane: Lane

    init(lane: Lane) { self.lane = lane }
}

extension LaneStoreRelay: ActivityStoreHandler {
    func replied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) { lane.replied(tag: tag, reply) }
    func failed(tag: UInt64, script: StoreScript, error: RedisError) {
        lane.failed(tag: tag, script: script, error: error)
    }
    func redisReady() { lane.redisReady() }
    func redisLost(_ reason: RedisError) { lane.redisLost(reason) }
    func redisWarns(_ warning: RedisWarning) { lane.redisWarns(warning) }
    func redisReplicas(_ replicas: RedisReplicas) { lane.redisReplicas(replicas) }
    func answered(calls: Int, roundTripMicroseconds: Int64) {
        lane.answered(calls: calls, roundTripMicroseconds: roundTripMicroseconds)
    }
}

extension LaneStoreRelay: AudienceStoreHandler {
    func audienceReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        lane.audienceReplied(tag: tag, reply)
    }
    func audienceFailed(tag: UInt64, error: RedisError) { lane.audienceFailed(tag: tag, error: error) }
    func audienceStoreReady() { lane.requestTurnEnd() }
    /// Notes the loss for audiences only. The activity store connects to the same servers, and reports the
    /// loss itself.
    func audienceStoreLost(_ reason: RedisError) { lane.audienceStoreLost() }
}
