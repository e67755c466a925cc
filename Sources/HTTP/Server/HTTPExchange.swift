import Synchronization

/// A request that waits for its response. It is answered once: by the handler's return value, or later by any thread.
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

    /// Answers from any thread. Only the first response counts. If the client has gone, nothing happens.
    package func answer(_ response: HTTPResponse) {
        guard take() else { return }
        inbox.post(.answer(response, connection: connection))
    }

    /// Answers with a head at once, and with a body that is appended from any thread.
    ///
    /// - Parameter head: a response whose body is what the stream begins with.
    /// - Returns: nil if as many streams as allowed are open, the server has ended, or the exchange is answered.
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

    /// - Returns: whether the caller may answer.
    func take() -> Bool { !isAnswered.exchange(true, ordering: .acquiringAndReleasing) }
}
