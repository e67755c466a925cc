/// Knows the scripts of a connection, collects calls into one command, and interprets the replies. A connection has one
/// session, and calls it on the connection's thread.
///
/// The session adds calls with ``RedisConnection/appendCall(isWritten:needsReplicas:)``. Each of them gets exactly one
/// reply or failure, in the order of the calls.
public protocol RedisSession: AnyObject {
    /// The texts of the scripts. The connection loads them before it is ready. A call names its script by the index in
    /// this list.
    var scripts: [String] { get }
    /// Writes the collected calls, in as few commands as possible. The connection calls this method at the end of the
    /// iteration, and before it sends the scripts again.
    func flush(on connection: RedisConnection)
    /// Discards the collected calls that are not written, because the connection was lost or closed. The connection
    /// then calls ``handleFailureOfOldestCall(_:)`` for each of them.
    func discardCollectedCalls()
    /// Handles the reply to the `callCount` oldest calls, which were sent as one command. The reply is not an error.
    /// The session must complete each of these calls by ``RedisConnection/completeOldestCall(from:)``.
    func handleReply(_ reply: Reply, toCalls callCount: Int, from reader: ReplyReader, on connection: RedisConnection)
    /// Handles the failure of the oldest call. The connection has already removed the call from its outstanding calls.
    func handleFailureOfOldestCall(_ error: RedisError)
}
