import Synchronization

/// A request that waits for its response. It is answered once: by the handler's return value, or later by any
/// thread.
///
/// An exchange that is released without a response is answered with status 500.
package final class HTTPExchange: Sendable {
    package let head: HTTPRequestHead
    package let body: [UInt8]
    private let inbox: HTTPServerInbox
    private let connection: UInt64
    private let isAnswered = Atomic<Bool>(false)

    /// - Precondition: the inbox has counted the exchange and its body.
    init(_ head: HTTPRequestHead, body: [UInt8], inbox: HTTPServerInbox, connection: UInt64) {
        self.head = head
        self.body = body
        self.inbox = inbox
        self.connection = connection
    }

    deinit {
        answer(.plain(500))
        inbox.endExchange(bodyBytes: body.count)
    }

    /// Answers from any thread. Only the first response counts. Does nothing if the client has disconnected.
    package func answer(_ response: HTTPResponse) {
        guard take() else { return }
        inbox.post(.answer(response, connection: connection))
    }

    /// Sends the head of the response at once, and returns a stream to which any thread may append the body.
    ///
    /// - Parameter head: the response to begin with. Its body is the first part of the streamed body.
    /// - Returns: nil if the limit of open streams is reached, the server has ended, or the exchange is
    ///   already answered.
    package func stream(_ head: HTTPResponse) -> HTTPResponseStream? {
        guard inbox.beginStream() else { return nil }
        guard take() else {
            inbox.endStream()
            return nil
        }
        let stream = HTTPResponseStream(head: head, inbox: inbox, connection: connection)
        inbox.post(.streamBegan(stream, connection: connection))
        return stream
    }

    /// Returns true to the first caller, which must then answer, and false to every later caller.
    func take() -> Bool { !isAnswered.exchange(true, ordering: .acquiringAndReleasing) }
}
