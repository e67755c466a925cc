/// The user of a connection. It knows the scripts, collects calls into one command, and interprets the replies. So the
/// connection knows nothing of activities.
///
/// A connection has one session, and calls it on the connection's thread. Every call that the session adds with
/// ``RedisConnection/appendCall(isWritten:needsReplicas:)`` gets exactly one reply or failure, in the order of the
/// calls.
public protocol RedisSession: AnyObject {
    /// The sources of the scripts. The connection loads them before it is ready. A call names its script by the index
    /// in this list.
    var scripts: [String] { get }
    /// Writes the collected calls, in as few commands as possible. The connection calls this method at the end of
    /// the iteration, and before it sends the scripts again.
    func flush(on connection: RedisConnection)
    /// Discards the collected calls that are not written, because the connection was lost or closed.
    /// ``handleFailure(_:)`` follows for each of them.
    func discardCollectedCalls()
    /// The `callCount` oldest calls, which left as one command, got a reply that is not an error. The session must
    /// complete each of them by ``RedisConnection/completeOldestCall(from:)``.
    func handleReply(_ reply: Reply, toCalls callCount: Int, from reader: ReplyReader, on connection: RedisConnection)
    /// The oldest call failed. The connection has already removed it from its outstanding calls.
    func handleFailure(_ error: RedisError)
}
