/// What is said over a connection: the scripts, the calls that are collected for one command, and the meaning of the replies.
///
/// A connection has one session, and calls it on the connection's thread. Every call that a session has announced by
/// ``RedisConnection/appendCall(isWritten:)`` ends in exactly one reply or one failure, in the order of the calls.
public protocol RedisSession: AnyObject {
    /// The bodies of the scripts, which the connection loads before it is ready. Calls name a script by its place in this list.
    var scripts: [String] { get }
    /// Writes the calls that were collected, as one command; called at the turn's end and before any other command is written.
    func flush(on connection: RedisConnection)
    /// The connection was lost: drops the collected calls that were not written. ``failed(_:)`` follows for each.
    func discardCollected()
    /// A reply that is not an error came to the oldest calls, which left as one command. The session completes each by
    /// ``RedisConnection/completeOldestCall(from:)``.
    func replied(_ reply: Reply, toCalls count: Int, from reader: ReplyReader, on connection: RedisConnection)
    /// The oldest call failed.
    func failed(_ error: RedisError)
}
