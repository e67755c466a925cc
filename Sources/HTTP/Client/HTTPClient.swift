import Reactor

/// An HTTP/1.1 client. Each request has its own connection and event loop, and blocks the calling thread.
package struct HTTPClient: Sendable {
    package struct Response: Sendable, Equatable {
        package var status: Int
        package var body: [UInt8]
    }

    package var address: HTTPAddress
    /// The settings of TLS; nil for a connection without TLS.
    package var tls: TLSContext?
    /// The limit for a whole request, including the name look-up.
    package var timeoutMilliseconds: Int
    /// The maximum length of a response's body in bytes. A faulty server must not fill the memory, in which the body is
    /// collected.
    package var responseBodyBytesMax = 16 << 20
    /// Whether the caller needs only the status, for example when it exports traces. If so, the request ends after the
    /// response's head: the returned body is empty, and a fault in the body causes no error.
    package var readsOnlyStatus = false
    /// The caller signals this wakeup to end a request in progress, for example when the worker stops. The client never
    /// resets the wakeup, so all later requests also end at once.
    package var cancellationWakeup: Wakeup?

    package init(address: HTTPAddress, timeoutMilliseconds: Int) {
        self.address = address
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    /// Sends one request and waits for the whole response, or only for its head if ``readsOnlyStatus`` is true.
    ///
    /// - Parameters:
    ///   - contentType: the `Content-Type` field. It is sent only with a body that is not empty.
    ///   - fields: further header fields, each as a line that ends with CR LF.
    /// - Throws: if the response (or its head) does not arrive completely within the time limit, if it is not HTTP or
    ///   too large, or if `cancellationWakeup` is signalled. A response with an error status is returned like others.
    package func request(
        _ method: String = "GET",
        contentType: String = "application/json",
        fields: String = "",
        body: [UInt8] = []
    ) throws(HTTPClientError) -> Response {
        var head = "\(method) \(address.path) HTTP/1.1\r\nHost: \(address.server)\r\n"
        if !body.isEmpty { head += "Content-Type: \(contentType)\r\n" }
        head += fields
        if !body.isEmpty || method != "GET" { head += "Content-Length: \(body.count)\r\n" }
        head += "Connection: close\r\n\r\n"
        let request: HTTPClientRequest
        do throws(SystemError) {
            request = try HTTPClientRequest(self, method: method, head: Array(head.utf8), body: body)
        } catch {
            throw HTTPClientError(cause: .connectFailed, description: error.description)
        }
        return try request.run()
    }
}

/// Why a request has no response.
package struct HTTPClientError: Error, Equatable, CustomStringConvertible {
    package enum Cause: Sendable, Equatable {
        /// The host's name could not be resolved.
        case resolveFailed
        /// No connection could be made.
        case connectFailed
        /// The server's certificate was refused: for example, it is not trusted, out of date, or for another name.
        case certificateRefused
        /// The connection or TLS failed, or the server closed the connection, before the end of the response.
        case connectionLost
        /// The response is not HTTP, its head is too large, or its transfer coding is not `chunked`.
        case responseMalformed
        /// The response's body is larger than `responseBodyBytesMax`.
        case responseTooLarge
        /// The time limit passed before the end of the response.
        case timedOut
        /// The caller signalled `cancellationWakeup`.
        case cancelled
    }

    package var cause: Cause
    /// The error in words, for logs and users. Contains no header field and no body of the request.
    package var description: String
}
