import ActivityStore
import LiveActivity
import Redis

/// Passes what the stores report to a lane. The stores refer to this object weakly, and not to the lane: Swift retains
/// an object that has weak references more slowly, and the lane is retained for every push. Weak references to the lane
/// took 5 % of a round's CPU.
final class LaneStoreHandler {
    /// `unowned`, because the lane owns this handler and its stores.
    private unowned let lane: Lane

    init(lane: Lane) { self.lane = lane }
}

extension LaneStoreHandler: ActivityStoreHandler {
    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        lane.passActivityStoreReply(tag: tag, reply)
    }
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) {
        lane.passActivityStoreFailure(tag: tag, script: script, error: error)
    }
    func redisReady() { lane.noteRedisReady() }
    func redisDisconnected(_ reason: RedisError) { lane.noteRedisDisconnection(reason) }
    func redisWarned(_ warning: RedisWarning) { lane.logRedisWarning(warning) }
    func redisReportedReplicas(_ replicas: RedisReplicaStatus) { lane.noteReplicaStatus(replicas) }
    func redisReplied(callCount: Int, roundTripMicroseconds: Int64) {
        lane.observeRoundTrip(callCount: callCount, roundTripMicroseconds: roundTripMicroseconds)
    }
}

extension LaneStoreHandler: AudienceStoreHandler {
    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        lane.passAudienceStoreReply(tag: tag, reply)
    }
    func audienceCallFailed(tag: UInt64, error: RedisError) { lane.passAudienceStoreFailure(tag: tag, error: error) }
    func audienceStoreReady() { lane.noteAudienceStoreReady() }
    /// Tells only the core for audiences about the lost connection. Writes no log line, because usually the activity
    /// store loses its connection to the same server, and that loss is logged.
    func audienceStoreDisconnected(_ reason: RedisError) { lane.noteAudienceStoreMayHaveLostData() }
}
