/// The script that a call runs.
public enum ScriptKind: UInt8, Sendable {
    case admit, settle
}

/// Whether a call was written.
public enum CallIssue: Sendable {
    /// Exactly one of `admitted`, `settled` and `failed` will follow for its tag.
    case issued
    /// There is no connection now; `redisReady` will tell.
    case notReady
    /// As many calls, or as much output, as may be are under way; replies make room.
    case full
    /// A part of the call is empty or longer than its limit. It will never be taken.
    case outOfBounds
}

/// Something about the server that should be seen to, though work goes on.
public enum RedisWarning: Sendable, Equatable {
    /// `maxmemory-policy` lets the server drop our hashes when memory is short (all of them expire, so every policy but
    /// `noeviction` does): pushes may then be repeated.
    case evicts(policy: String)
    /// `maxmemory-policy` could not be read.
    case evictionPolicyUnknown(RedisError)
    /// The version could not be read; the scripts are loaded in the form that every version takes.
    case versionUnknown(RedisError)
}

/// Told what happens on a connection. All calls come from the loop, or from inside ``RedisConnection/close()``; each may issue
/// calls or close the connection.
public protocol RedisHandler: AnyObject {
    /// The connection is up, logged in, and has both scripts: calls are taken. Calls that have failed can be issued again.
    func redisReady()
    /// A connection was lost, or an attempt to make one failed; another follows by itself. `failed` follows at once for every
    /// outstanding call, oldest first.
    func redisLost(_ reason: RedisError)
    func redisWarns(_ warning: RedisWarning)
    /// A reply to so many calls came, whatever it says; what each comes to follows. Both times are those of their turns.
    func answered(calls: Int, roundTripMicroseconds: Int64)
    /// - Parameter reply: its bytes are valid during this call only.
    func admitted(tag: UInt64, reply: AdmitReply)
    /// - Parameter tokenRetired: the call had a retirement, and its token was the one that counted.
    func settled(tag: UInt64, tokenRetired: Bool)
    /// The call's fate is not known if the error is the connection's: issue it again, the scripts stand repetition.
    func failed(tag: UInt64, script: ScriptKind, error: RedisError)
}

extension RedisHandler {
    /// Not everybody measures.
    public func answered(calls: Int, roundTripMicroseconds: Int64) {}
}
