import ActivityStore
import Audiences
import CausewayConfiguration
import Delivery
import LiveActivity
import Logging
import Observability
import Redis

/// Passes calls to the activity store, and the store's replies to the core that made the call.
extension Lane {
    /// Sends the calls of the core for single activities to Redis, until none waits or the store takes no more.
    func performStoreCalls() {
        guard activityStore.isReady else { return }
        while let issueResult = delivery.withNextStoreCall(now: now, { activityStore.issue($0) }) {
            switch issueResult {
            case .issued:
                delivery.removeNextStoreCall()
            case .notReady where activityStore.hasSeveralServers:
                // The server for this call is unreachable. Delay the call, because calls to other servers must not wait
                // behind it. A delayed call comes again after a pause, so this loop ends even if no server is
                // reachable.
                delivery.delayNextStoreCallForUnavailableServer(now: now)
            case .replicasMissing:
                delivery.delayNextStoreCallForMissingReplicas(now: now)
            case .notReady, .full:
                // The call stays in the queue. When a reply has made room, or when a connection is ready, another
                // iteration tries the call again.
                return
            case .outOfBounds:
                delivery.refuseNextStoreCall("Redis: the call exceeds Redis' limits", now: now)
            }
        }
    }

    func passActivityStoreReply(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        if Audiences.isOwnActivityStoreCall(tag: tag) {
            audiences.handleActivityStoreReply(tag: tag, now: now)
        } else {
            delivery.handleStoreReply(tag: tag, reply, now: now)
        }
        requestCallAtIterationEnd()
    }

    func passActivityStoreFailure(tag: UInt64, script: StoreScript, error: RedisError) {
        let failure = error.storeFailure(hasSeveralServers: activityStore.hasSeveralServers)
        // One failed WAIT (the command of Redis that waits for replicas) fails many calls. `noteReplicaStatus` logs and
        // counts the failure once.
        if error.code != .replicasMissing { logAndCount(error, failure, of: script) }
        if Audiences.isOwnActivityStoreCall(tag: tag) {
            audiences.handleActivityStoreFailure(tag: tag, failure, now: now)
        } else if failure == .refused {
            reportRefusal(tag, reason: error.reason)
        } else {
            delivery.handleStoreFailure(tag: tag, failure, now: now)
        }
        requestCallAtIterationEnd()
    }

    private func logAndCount(_ error: RedisError, _ failure: StoreFailure, of script: StoreScript) {
        metrics.add(.redisErrors, Int(error.code.rawValue))
        if failure == .refused {
            writeLog(.redisRefused, ["script": "\(script)", "reason": "\(error)"])
        } else if error.needsOperatorAction {
            writeLog(.redisError, ["script": "\(script)", "reason": "\(error)"])
        }
    }

    private func reportRefusal(_ tag: UInt64, reason: String) {
        var reason = "Redis: " + reason
        reason.withUTF8 {
            delivery.handleStoreFailure(tag: tag, .refused, reason: UnsafeRawBufferPointer($0), now: now)
        }
    }

    func noteRedisReady() {
        if redisConnectionHistory.noteReady() { metrics.add(.redisReconnects) }
        writeLog(.redisReady, ["lane": "\(number)"])
        requestCallAtIterationEnd()
    }

    func noteRedisDisconnection(_ reason: RedisError) {
        redisConnectionHistory.noteLost()
        writeLog(
            .redisLost,
            ["lane": "\(number)", "servers": "\(setup.redisConfiguration.addresses)", "reason": "\(reason)"]
        )
    }

    func logRedisWarning(_ warning: RedisWarning) {
        writeLog(.redisWarning, ["lane": "\(number)", "warning": "\(warning)"])
    }

    /// Logs that too few of Redis' replicas acknowledge the writes, and counts this as an error; or logs that enough do
    /// again.
    func noteReplicaStatus(_ replicas: RedisReplicaStatus) {
        switch replicas {
        case .acknowledging:
            writeLog(.redisReplicasAvailableAgain, ["lane": "\(number)"])
        case .missing(let acknowledgedReplicaCount, let isGivenUp, let refusal):
            metrics.add(.redisErrors, Int(RedisError.Code.replicasMissing.rawValue))
            var details: Logger.Metadata = ["lane": "\(number)", "acknowledged": "\(acknowledgedReplicaCount)"]
            details["calls"] = isGivenUp ? "continuing without them" : "waiting"
            if let refusal { details["reason"] = "\(refusal)" }
            writeLog(.redisReplicasMissing, details)
        }
    }

    func observeRoundTrip(callCount: Int, roundTripMicroseconds: Int64) {
        metrics.observe(.redisRoundTrip, microseconds: roundTripMicroseconds, count: Int64(callCount))
    }
}
