/// Whether a call was issued, or why not.
public enum IssueResult: Sendable {
    /// The call was issued. Exactly one reply or failure will follow.
    case issued
    /// No connection can take the call now. Issue it again after `redisReady`. In a cluster, also try again after a
    /// pause: if an ASK redirects the call to a server without room, no `redisReady` follows.
    case notReady
    /// Too many calls or too much output wait. Issue the call again after a reply.
    case full
    /// The call needs replicas, but too few replicas acknowledge. Issue the call again in about a second.
    case replicasMissing
    /// A part of the call is empty or too long, so the call can never be issued.
    case outOfBounds
}

/// A condition of the server that an operator should fix, although work continues. A log line `redis-warning` describes
/// it in words.
public enum RedisWarning: Sendable, Equatable {
    /// The server's `maxmemory-policy` is not `noeviction`. When memory is short, the server may evict the keys of
    /// activities, devices and audiences, and then pushes may be repeated.
    case mayEvictKeys(policy: String)
    /// The server did not say its `maxmemory-policy`.
    case evictionPolicyUnknown(RedisError)
    /// The server refused INFO, so its release is unknown. The connection loads the scripts in the form that every
    /// release accepts.
    case versionUnknown(RedisError)
}

extension RedisWarning: CustomStringConvertible {
    /// The warning in words, for logs and the command line.
    public var description: String {
        switch self {
        case .mayEvictKeys(let policy):
            // The server chooses the text of the policy, so control characters in it are escaped.
            "Redis may evict keys, and then pushes may be repeated: its maxmemory-policy must be noeviction, but is "
                + String(reflecting: policy)
        case .evictionPolicyUnknown(let error):
            "Redis does not say its maxmemory-policy, which must be noeviction: \(error)"
        case .versionUnknown(let error): "Redis does not say its version: \(error)"
        }
    }
}

/// Whether enough replicas acknowledge writes. Reported only if ``RedisConfiguration/requiredReplicaCount`` is not 0.
public enum RedisReplicaStatus: Sendable, Equatable {
    /// Too few replicas acknowledged in time: only `acknowledgedCount`. Calls that need replicas must wait while
    /// `isGivenUp` is false. It becomes true after 10 s: these calls then get their replies without an acknowledgement
    /// (``ReplicaWatch``).
    ///
    /// - Parameter RedisError: the server's reply to WAIT, if it was an error.
    case missing(acknowledgedCount: Int, isGivenUp: Bool, RedisError?)
    /// Enough replicas acknowledge again.
    case acknowledging
}

/// Receives the events of a client's connections, on the loop's thread. Each method may issue calls or close the
/// connection.
public protocol RedisHandler: AnyObject {
    /// A connection is up, has logged in, and has loaded the scripts. Calls can be issued, and failed calls can be
    /// issued again.
    func redisReady()
    /// A connection was lost, an attempt to connect failed, or a look-up of a cluster's hash slots failed. The client
    /// tries again automatically. All calls without a reply on a lost connection fail right after this method, oldest
    /// first.
    func redisDisconnected(_ reason: RedisError)
    func redisWarned(_ warning: RedisWarning)
    /// Called after each reply to WAIT that shows too few replicas, and once when enough replicas acknowledge again.
    func redisReportedReplicas(_ replicas: RedisReplicaStatus)
    /// A reply to `callCount` calls arrived. The session gets the results after this method returns. The round trip is
    /// inexact, because the loop normally reads its clock only once an iteration.
    func redisReplied(callCount: Int, roundTripMicroseconds: Int64)
}

extension RedisHandler {
    /// Does nothing by default, for handlers that make no calls that need replicas.
    public func redisReportedReplicas(_ replicas: RedisReplicaStatus) {}

    /// Does nothing by default, for handlers that measure no round trips.
    public func redisReplied(callCount: Int, roundTripMicroseconds: Int64) {}
}
