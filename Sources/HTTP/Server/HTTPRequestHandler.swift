/// Responds to the requests of a server. All calls come on the server's own thread, and the handler must not block this
/// thread.
package protocol HTTPRequestHandler: AnyObject {
    /// - Returns: the response; nil if the handler responds by `HTTPExchange.respond` or `HTTPExchange.openStream`,
    ///   inside this call or later.
    func respond(to exchange: HTTPExchange) -> HTTPResponse?

    /// Returns the response to a refused request. The server refuses a request that breaks HTTP's rules or the server's
    /// limits, and a request to which the handler responds too late. The server closes the connection after this
    /// response.
    func refusal(status: Int) -> HTTPResponse
}
