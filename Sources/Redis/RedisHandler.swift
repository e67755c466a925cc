/// Whether a call was written.
public enum CallIssue: Sendable {
    /// Exactly one reply or failure will follow.
    case issued
    /// There is no connection now; `redisReady` will tell.
    case notReady
    /// As many calls, or as much output, as may be are under way; replies make room.
    case full
    /// The call asks for replicas' acknowledgement, and they are missing: it is to be issued again in about a second.
    case awaitsReplicas
    /// A part of the call is empty or longer than its limit. It will never be taken.
    case outOfBounds
}

/// Something about the server that an operator should see to, though work goes on.
public enum RedisWarning: Sendable, Equatable {
    /// `maxmemory-policy` lets the server evict our keys when memory is short (all of them expire, so every policy but
    /// `noeviction` does): pushes may then be repeated.
    case evicts(policy: String)
    /// `maxmemory-policy` could not be read.
    case evictionPolicyUnknown(RedisError)
    /// The version could not be read; the scripts are loaded in the form that every version takes.
    case versionUnknown(RedisError)
}

/// Whether replicas acknowledge what is written; only where ``RedisConfiguration/replicas`` is set.
public enum RedisReplicas: Sendable, Equatable {
    /// Too few did in time. The calls that ask for it wait, or are answered without it once replicas have been missing for long.
    ///
    /// - Parameter RedisError: why the server could not be asked.
    case missing(acknowledged: Int, isGivenUp: Bool, RedisError?)
    /// Enough do again.
    case following
}

/// Told what happens to a connection. All calls come from the loop, or from inside `close()`; each may issue calls or close the
/// connection.
public protocol RedisHandler: AnyObject {
    /// The connection is up, logged in, and has the scripts: calls are taken. Calls that have failed can be issued again.
    func redisReady()
    /// A connection was lost, or an attempt to make one failed; another attempt follows by itself. Every outstanding call fails at once,
    /// oldest first.
    func redisLost(_ reason: RedisError)
    func redisWarns(_ warning: RedisWarning)
    /// Told each time that replicas were asked and too few answered, and when enough do again.
    func redisReplicas(_ replicas: RedisReplicas)
    /// A reply to so many calls came; what each comes to follows. The time is from turn to turn.
    func answered(calls: Int, roundTripMicroseconds: Int64)
}

extension RedisHandler {
    /// Where no replicas are asked.
    public func redisReplicas(_ replicas: RedisReplicas) {}

    /// Measuring is optional.
    public func answered(calls: Int, roundTripMicroseconds: Int64) {}
}
