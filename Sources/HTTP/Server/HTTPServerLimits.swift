/// The limits of a server. The defaults suit a server that sends small pages and accepts no request bodies. A server
/// that accepts bodies must set `bodyBytesMax` and `totalBodyBytesMax`.
package struct HTTPServerLimits: Sendable {
    /// The maximum number of connections. At this limit, the server closes the connection that is nearest to its
    /// deadline, and accepts the new one. So many idle clients cannot keep out a health probe.
    ///
    /// A connection whose request waits for the handler, or whose `HTTPResponseStream` is open, is not closed for this.
    /// If all are such connections, the server closes the new one.
    package var connectionsMax = 64
    /// The maximum number of bytes in the request line and the header fields together.
    package var headBytesMax = HTTPHead.bytesMax
    /// The maximum number of bytes in one body; 0: the server refuses every body.
    package var bodyBytesMax = 0
    /// The maximum number of bytes in all bodies together, or each connection could bring a body of `bodyBytesMax`. A
    /// body counts from its first byte until its `HTTPExchange` is released. The request with the body that exceeds
    /// this limit gets status 503.
    package var totalBodyBytesMax = 0
    /// The maximum number of requests that wait for the handler's response. A request counts until its `HTTPExchange`
    /// is released, even if the client has disconnected or has got status 503.
    package var exchangesMax = 64
    /// The maximum number of streams (`HTTPResponseStream`) that are open at one time.
    package var streamsMax = 0
    /// The maximum number of bytes that wait in one stream. An append that would exceed this limit is skipped, because
    /// a client that reads slowly must not cost more and more memory.
    package var streamBytesMax = 256 * 1_024
    /// The longest time from a request's first byte to the end of its head, so that no client keeps a connection by
    /// sending a head byte by byte; and from a connection's start to its first byte.
    package var headTimeoutMilliseconds: Int64 = 10_000
    /// The longest time from the end of a head to the end of its body.
    package var bodyTimeoutMilliseconds: Int64 = 60_000
    /// The longest time from the end of a request to the handler's response. After this time, the client gets status
    /// 503.
    package var responseTimeoutMilliseconds: Int64 = 120_000
    /// The longest time from a response to the first byte of the connection's next request. Also the longest time in
    /// which a client takes no byte of the response that is being sent to it.
    package var idleTimeoutMilliseconds: Int64 = 30_000

    /// The maximum number of requests that a client may send without waiting for responses and that are handled in a
    /// row: one client must not keep the server's only thread busy. After more, it gets status 400. No common client
    /// sends so many.
    static let pipelinedRequestsMax = 16
    /// How many bytes a client may send before the response to its last request is written. If more arrive, the server
    /// pauses reading from the connection, because these bytes need memory.
    static let pipelinedBytesMax = 16_384
    /// How long responses may still be sent after a request to stop. A slow client must not delay the stop for longer.
    static let stopTimeoutMilliseconds: Int64 = 1_000

    package init() {}
}
