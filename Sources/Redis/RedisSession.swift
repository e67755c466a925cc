/// The user of a connection: knows the scripts, collects calls into one command, and interprets the replies.
///
/// A connection has one session, and calls the session on the connection's thread. Every call that the
/// session announced with ``RedisConnection/appendCall(isWritten:)`` ends in exactly one reply or failure, in
/// the order of the calls.
public protocol RedisSession: AnyObject {
    /// The sources of the scripts. The connection loads them before it is ready. Calls refer to a script by
    /// its place in this list.
    var scripts: [String] { get }
    /// Writes the collected calls as one command. Called at the end of the turn, and before any other command
    /// is written.
    func flush(on connection: RedisConnection)
    /// The connection was lost. Drops the collected calls that were not written; ``failed(_:)`` follows for
    /// each.
    func discardCollected()
    /// The oldest calls, which left as one command, got a reply that is not an error. The session completes
    /// each with ``RedisConnection/completeOldestCall(from:)``.
    func replied(_ reply: Reply, toCalls count: Int, from reader: ReplyReader, on connection: RedisConnection)
    /// The oldest call failed.
    func failed(_ error: RedisError)
}
