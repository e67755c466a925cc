/// Responds to the requests of a server. All calls come on the server's own thread, and the handler must not block this
/// thread.
package protocol HTTPRequestHandler: AnyObject {
    /// Responds to a complete request.
    ///
    /// - Returns: the response. Nil if the handler calls `HTTPExchange.respond` or `HTTPExchange.openStream` instead,
    ///   inside this call or later.
    func respond(to exchange: HTTPExchange) -> HTTPResponse?

    /// Returns the response to a request that the server refuses, because it breaks HTTP's rules or the server's
    /// limits, or because the handler responded too late. After this response, the server closes the connection.
    func refusal(status: Int) -> HTTPResponse
}
