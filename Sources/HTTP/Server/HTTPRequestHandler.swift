/// Answers the requests of a server. Called only on the server's thread, which must not wait.
package protocol HTTPRequestHandler: AnyObject {
    /// - Returns: the response; nil if the handler answers later, through the exchange or its stream.
    func answer(_ exchange: HTTPExchange) -> HTTPResponse?

    /// Returns the response to a request that breaks HTTP's rules or the server's limits. The connection ends
    /// after it.
    func refusal(status: Int) -> HTTPResponse
}
