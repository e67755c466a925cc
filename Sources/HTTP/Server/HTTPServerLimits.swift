/// The limits of a server. The defaults suit small pages. A server that takes bodies must set the limits of
/// bodies.
package struct HTTPServerLimits: Sendable {
    /// The most connections. A further connection replaces the connection nearest to its deadline that has no
    /// unanswered request. If every connection has an unanswered request, the further connection is closed.
    package var connectionsMax = 64
    /// The most bytes of the request line and the header fields.
    package var headBytesMax = HTTPHead.bytesMax
    /// The most bytes of one body; 0: no bodies.
    package var bodyBytesMax = 0
    /// The most bytes of all bodies that are being received or whose request is not answered yet.
    package var bodiesBytesMax = 0
    /// The most requests that wait for their handler. Requests of clients that have disconnected count as
    /// well.
    package var exchangesMax = 64
    /// The most streams (`HTTPResponseStream`) that are open at one time.
    package var streamsMax = 0
    /// The most bytes that wait in one stream. Appended bytes that have no room are skipped.
    package var streamBytesMax = 256 * 1_024
    /// The time from a request's first byte to the end of its head.
    package var headMilliseconds: Int64 = 10_000
    /// The time from the end of a head to the end of its body.
    package var bodyMilliseconds: Int64 = 60_000
    /// The time that a handler has for its response.
    package var responseMilliseconds: Int64 = 120_000
    /// The longest time until the next request, and until a client takes some bytes of a waiting response.
    package var idleMilliseconds: Int64 = 30_000

    /// The most pipelined requests that are answered after one read. No real client sends so many at once.
    static let requestsPerArrivalMax = 16
    /// Reading pauses when more bytes than this follow a request that is not answered yet.
    static let pipelinedBytesMax = 16_384
    /// How long responses may still be sent after the server was told to stop.
    static let stopMilliseconds: Int64 = 1_000

    package init() {}
}
