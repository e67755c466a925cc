import Synchronization

/// A request that waits for its response. It gets exactly one: the handler's return value, a response from any thread,
/// status 503 after `HTTPServerLimits.responseTimeoutMilliseconds`, or status 500 if all references to the exchange are
/// released before.
package final class HTTPExchange: Sendable {
    package let head: HTTPRequestHead
    /// The body of the request.
    package let body: [UInt8]
    private let inbox: HTTPServerInbox
    private let connectionNumber: UInt64
    private let hasResponse = Atomic<Bool>(false)

    /// - Precondition: the caller has counted the exchange (`reserveExchange`) and the bytes of its body
    ///   (`addBodyBytes`) in the inbox.
    init(_ head: HTTPRequestHead, body: [UInt8], inbox: HTTPServerInbox, connectionNumber: UInt64) {
        self.head = head
        self.body = body
        self.inbox = inbox
        self.connectionNumber = connectionNumber
    }

    deinit {
        respond(.statusOnly(500))
        inbox.releaseExchange(bodyBytes: body.count)
    }

    /// Responds to the request, from any thread. Does nothing if the exchange already has its response. The response is
    /// discarded if the connection has ended, or the client got status 503 because the response was too late.
    package func respond(_ response: HTTPResponse) {
        guard takeRightToRespond() else { return }
        inbox.post(.response(response, connectionNumber: connectionNumber))
    }

    /// Begins a streamed response. Any thread may append the response's body to the returned stream. The server's
    /// thread sends the head soon, without waiting for appended bytes.
    ///
    /// - Parameter initialResponse: its status and header fields are those of the response, and its body is the first
    ///   part of the streamed body.
    /// - Returns: nil if the limit of open streams is reached, the server has ended, or the exchange already has its
    ///   response. If the server ends during this call, the returned stream may already have ended.
    package func openStream(_ initialResponse: HTTPResponse) -> HTTPResponseStream? {
        guard inbox.reserveStream() else { return nil }
        guard takeRightToRespond() else {
            inbox.releaseStream()
            return nil
        }
        let stream = HTTPResponseStream(
            initialResponse: initialResponse,
            inbox: inbox,
            connectionNumber: connectionNumber
        )
        inbox.post(.streamBegan(stream, connectionNumber: connectionNumber))
        return stream
    }

    /// Gives the right to respond to its first caller only, because several threads may try to respond.
    ///
    /// - Returns: true for the first caller, which must respond; false for every later caller.
    func takeRightToRespond() -> Bool { !hasResponse.exchange(true, ordering: .acquiringAndReleasing) }
}
