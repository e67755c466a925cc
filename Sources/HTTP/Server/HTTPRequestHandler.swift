/// Responds to the requests of a server. All calls come on the server's own thread, and the handler must not block this
/// thread.
package protocol HTTPRequestHandler: AnyObject {
    /// - Returns: the response; nil if the handler responds by `HTTPExchange.respond` or `HTTPExchange.openStream`,
    ///   inside this call or later.
    func respond(to exchange: HTTPExchange) -> HTTPResponse?

    /// Returns the response to a refused request. The server closes the connection after this response. It refuses a
    /// request that breaks HTTP's rules or the server's limits, and a request whose response takes the handler too
    /// long.
    func refusal(status: Int) -> HTTPResponse
}
