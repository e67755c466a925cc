/// Whether a call was written.
public enum CallIssue: Sendable {
    /// Exactly one reply or failure will follow.
    case issued
    /// There is no connection now. `redisReady` is called when there is one.
    case notReady
    /// The limit of outstanding calls or of output is reached. Wait for replies.
    case full
    /// The call asks for replicas, which are missing. Issue it again in about a second.
    case awaitsReplicas
    /// A part of the call is empty or too long. The call can never be issued.
    case outOfBounds
}

/// A condition of the server that an operator should fix, although work continues.
public enum RedisWarning: Sendable, Equatable {
    /// `maxmemory-policy` lets the server evict our keys when memory is short, so pushes may be repeated. All
    /// our keys expire, so every policy but `noeviction` does this.
    case evicts(policy: String)
    /// `maxmemory-policy` could not be read.
    case evictionPolicyUnknown(RedisError)
    /// The version could not be read. The scripts are loaded in the form that every version accepts.
    case versionUnknown(RedisError)
}

/// Whether replicas acknowledge writes. Only if ``RedisConfiguration/replicas`` is set.
public enum RedisReplicas: Sendable, Equatable {
    /// Too few replicas acknowledged in time. Calls that request replicas wait. After 10 seconds
    /// (``ReplicaWatch``) `isGivenUp` is true, and such calls are answered without replicas.
    ///
    /// - Parameter RedisError: the server's answer to WAIT, if it was an error.
    case missing(acknowledged: Int, isGivenUp: Bool, RedisError?)
    /// Enough replicas acknowledge again.
    case following
}

/// Receives a connection's events, from the loop or inside `close()`. Each method may issue calls or close
/// the connection.
public protocol RedisHandler: AnyObject {
    /// The connection is up, logged in, and has loaded the scripts, so calls may be issued. Failed calls may
    /// be issued again.
    func redisReady()
    /// The connection was lost, or an attempt to connect failed; another attempt follows automatically. All
    /// outstanding calls fail at once, oldest first.
    func redisLost(_ reason: RedisError)
    func redisWarns(_ warning: RedisWarning)
    /// Called each time that too few replicas acknowledged, and when enough replicas acknowledge again.
    func redisReplicas(_ replicas: RedisReplicas)
    /// A reply to this many calls arrived. The session gets their results after this method returns.
    /// The round trip is the difference of two times of the loop, whose clock is normally read once a turn.
    func answered(calls: Int, roundTripMicroseconds: Int64)
}

extension RedisHandler {
    /// By default, ignores replicas.
    public func redisReplicas(_ replicas: RedisReplicas) {}

    /// By default, measures nothing.
    public func answered(calls: Int, roundTripMicroseconds: Int64) {}
}
