/// What a server takes at the most. The defaults suit small pages; a body needs a limit of its own.
package struct HTTPServerLimits: Sendable {
    /// The most connections. One more replaces the waiting connection that is nearest to its deadline; if all have a request that is not
    /// answered yet, it is closed.
    package var connectionsMax = 64
    /// The most bytes of the request line and the header fields.
    package var headBytesMax = HTTPHead.bytesMax
    /// The most bytes of one body; 0: no bodies.
    package var bodyBytesMax = 0
    /// The most bytes of all bodies that are received or not answered yet.
    package var bodiesBytesMax = 0
    /// The most requests that wait for their handler. It counts those, too, whose clients have gone.
    package var exchangesMax = 64
    /// The most streams (`HTTPResponseStream`) that are open at one time.
    package var streamsMax = 0
    /// The most bytes that wait in one stream. What finds no room is skipped.
    package var streamBytesMax = 256 * 1_024
    /// The time from a request's first byte to the end of its head.
    package var headMilliseconds: Int64 = 10_000
    /// The time from the end of a head to the end of its body.
    package var bodyMilliseconds: Int64 = 60_000
    /// The time that a handler has for its response.
    package var responseMilliseconds: Int64 = 120_000
    /// The time until the next request, and the time in which a client must take some bytes of a response that waits.
    package var idleMilliseconds: Int64 = 30_000

    /// The most requests that are answered for one arrival of bytes. No client sends so many at once.
    static let requestsPerArrivalMax = 16
    /// With more bytes behind a request that is not answered yet, reading pauses.
    static let pipelinedBytesMax = 16_384
    /// How long responses may still be sent after the server was told to stop.
    static let stopMilliseconds: Int64 = 1_000

    package init() {}
}
