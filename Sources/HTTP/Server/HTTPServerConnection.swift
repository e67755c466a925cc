import Reactor

/// One accepted connection. It reads the client's requests one after the other, and sends the handler's response to
/// each. The `HTTPServerLoop` owns the connection.
final class HTTPServerConnection: StreamHandler {
    enum Phase {
        /// Waits for the head of a request, or for the missing part of a head. Next: `readingBody`, `awaitingResponse`,
        /// `sending` or `ending`.
        case readingHead
        /// Waits for the rest of a body. Next: `awaitingResponse`, `sending` or `ending`.
        case readingBody
        /// The handler has the request and has not responded. Next: `sending`, `streaming` or `ending`.
        case awaitingResponse
        /// A part of the response waits until the stream has room. Next: `readingHead` or `ending`.
        case sending
        /// The response is an `HTTPResponseStream`, which has not ended. Next: `ending`.
        case streaming
        /// Sends the rest of the last response and then closes, or is closed already. No phase follows.
        case ending
    }

    /// Lazy, because the stream needs the connection as its handler.
    private(set) lazy var stream = Stream(accepted: descriptor, loop: server.loop, handler: self, tls: nil)
    /// The connection's number: 1 for the first connection that the server accepted.
    let number: UInt64
    private let descriptor: Int32
    /// Unowned, because the server owns its connections.
    private unowned let server: HTTPServerLoop
    private let limits: HTTPServerLimits
    private(set) var phase = Phase.readingHead
    /// When `enforceDeadline` closes the connection or refuses its request, on the loop's monotonic clock.
    private(set) var deadlineMilliseconds: Int64

    /// Received bytes that are not parsed yet: an incomplete head, or further requests, which the client sent without
    /// waiting.
    private var unreadInput: [UInt8] = []
    /// The request that is being read, or that waits for its response.
    private var request: HTTPRequestHead?
    private var bodyReader: HTTPBodyReader?
    /// How many bytes of `bodyReader.body` the connection has already added to the inbox's `bodyBytes`.
    private var countedBodyBytes = 0
    /// What is left to send of a response's body; nil if no response is being sent, or it is a stream.
    private var unsentBody: HTTPBodyWriter?
    /// Whether the connection reads a further request after the response that is being sent.
    private var keepsAlive = false
    private var responseStream: HTTPResponseStream?
    /// Whether the streamed response is sent in chunks. If not, the response lasts until the connection ends.
    private var isChunked = false

    /// How many bytes were written to the stream so far.
    private var writtenBytes = 0
    /// How many of `writtenBytes` the client's system had acknowledged at the last `enforceDeadline`. If the number has
    /// grown at the next call, the client still reads. The bytes in the stream's buffer would show this too late: a
    /// full socket takes more only when the client has read perhaps a megabyte.
    private var acknowledgedBytesAtLastCheck = 0

    init(number: UInt64, descriptor: Int32, server: HTTPServerLoop) {
        self.number = number
        self.descriptor = descriptor
        self.server = server
        limits = server.limits
        deadlineMilliseconds = server.loop.nowMilliseconds + limits.headTimeoutMilliseconds
    }

    /// Creates the stream, which then reads from the socket.
    func start() { _ = stream }

    /// Whether a request waits for its response, or a streamed response has not ended. To make room for a new
    /// connection, the server closes no busy connection.
    var isBusy: Bool {
        switch phase {
        case .awaitingResponse, .streaming: true
        case .readingHead, .readingBody, .sending, .ending: false
        }
    }

    // MARK: - Events of the socket

    func streamConnected(_ stream: Stream) {}

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        switch phase {
        case .readingHead:
            if unreadInput.isEmpty { setDeadline(afterMilliseconds: limits.headTimeoutMilliseconds) }
            unreadInput.append(contentsOf: bytes)
            readRequests()
        case .readingBody:
            readBody(bytes)
            readRequests()
        case .awaitingResponse, .sending:
            unreadInput.append(contentsOf: bytes)
            if unreadInput.count > HTTPServerLimits.pipelinedBytesMax { stream.pauseReading() }
        case .streaming, .ending: break
        }
    }

    func streamHasRoom(_ stream: Stream) {
        switch phase {
        case .sending: sendOutput()
        case .streaming: sendStreamedBytes()
        case .readingHead, .readingBody, .awaitingResponse, .ending: break
        }
        readRequests()
    }

    func streamClosed(_ stream: Stream, error: StreamError?) { close() }

    // MARK: - Reading requests

    /// Passes the complete requests in `unreadInput` to the handler, one after the other. Stops when a request waits
    /// for the rest of its body or for its response.
    private func readRequests() {
        var requestCount = 0
        while phase == .readingHead {
            stream.resumeReading()
            guard !unreadInput.isEmpty else { return }
            // If the client does not read its responses, the server reads no more requests of it.
            guard stream.pendingOutputBytes <= Stream.highWaterBytes else { return stream.pauseReading() }
            guard requestCount < HTTPServerLimits.pipelinedRequestsMax else { return refuse(400) }
            do throws(HTTPFault) {
                guard let (head, byteCount) = try HTTPRequestHead.parse(unreadInput, bytesMax: limits.headBytesMax)
                else { return }
                unreadInput.removeFirst(byteCount)
                requestCount += 1
                try beginRequest(head)
            } catch {
                return refuse(error.refusalStatus)
            }
        }
    }

    private func beginRequest(_ head: HTTPRequestHead) throws(HTTPFault) {
        request = head
        guard let framing = head.bodyFraming, framing != .contentLength(0) else { return passToHandler(head, body: []) }
        guard limits.bodyBytesMax > 0 else { throw .bodyTooLarge }
        bodyReader = try HTTPBodyReader(framing, bytesMax: limits.bodyBytesMax)
        phase = .readingBody
        setDeadline(afterMilliseconds: limits.bodyTimeoutMilliseconds)
        if head.awaitsContinue, unreadInput.isEmpty { write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        let earlyInput = unreadInput
        unreadInput = []
        earlyInput.withUnsafeBytes(readBody)
    }

    /// Reads bytes of the body of a request. Bytes after the body belong to the next request and stay in `unreadInput`.
    private func readBody(_ bytes: UnsafeRawBufferPointer) {
        do throws(HTTPFault) {
            guard let count = try bodyReader?.read(bytes) else { return }
            unreadInput.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[count...]))
        } catch {
            return refuse(error.refusalStatus)
        }
        let addedBytes = (bodyReader?.body.count ?? 0) - countedBodyBytes
        countedBodyBytes += addedBytes
        guard server.inbox.addBodyBytes(addedBytes) else { return refuse(503) }
        guard bodyReader?.isComplete == true, let request, let body = bodyReader?.takeBody() else { return }
        bodyReader = nil
        passToHandler(request, body: body)
    }

    /// Gives a complete request to the handler, and sends the response if the handler returns one at once. Refuses the
    /// request if too many wait for their response.
    private func passToHandler(_ head: HTTPRequestHead, body: [UInt8]) {
        guard server.inbox.reserveExchange() else { return refuse(503) }
        // The exchange owns the body now, and subtracts its bytes from the inbox's `bodyBytes`. So the connection must
        // not.
        countedBodyBytes = 0
        phase = .awaitingResponse
        setDeadline(afterMilliseconds: limits.responseTimeoutMilliseconds)
        let exchange = HTTPExchange(head, body: body, inbox: server.inbox, connectionNumber: number)
        guard let response = server.handler.respond(to: exchange), exchange.takeRightToRespond() else { return }
        send(response)
    }

    private func discardBody() {
        bodyReader = nil
        server.inbox.subtractBodyBytes(countedBodyBytes)
        countedBodyBytes = 0
    }

    // MARK: - Writing responses

    /// Sends a response that was posted to the inbox. Then reads the next request, which may already have arrived.
    func sendPostedResponse(_ response: HTTPResponse) {
        send(response)
        readRequests()
    }

    /// Sends the response to the request in progress. Does nothing if the request has been refused or the
    /// connection is ending.
    private func send(_ response: HTTPResponse) {
        guard phase == .awaitingResponse, let request else { return }
        send(response, keepsAlive: request.keepsAlive && !server.isStopping)
    }

    /// Responds with this error status, and closes the connection afterwards.
    private func refuse(_ status: Int) {
        discardBody()
        unreadInput = []
        send(server.handler.refusal(status: status), keepsAlive: false)
    }

    private func send(_ response: HTTPResponse, keepsAlive: Bool) {
        phase = .sending
        self.keepsAlive = keepsAlive
        write(response.makeHead(.contentLength, keepsAlive: keepsAlive))
        unsentBody = HTTPBodyWriter(request?.method == "HEAD" ? [] : response.body)
        sendOutput()
    }

    /// Writes as much of the response's body as the stream has room for. After the last byte, the connection waits for
    /// the next request, or closes.
    private func sendOutput() {
        setDeadline(afterMilliseconds: limits.idleTimeoutMilliseconds)
        let pendingBytes = stream.pendingOutputBytes
        let isWritten = unsentBody?.write(to: stream) ?? true
        writtenBytes += stream.pendingOutputBytes - pendingBytes
        guard isWritten else { return }
        unsentBody = nil
        request = nil
        guard keepsAlive else { return closeAfterSending() }
        phase = .readingHead
        if !unreadInput.isEmpty { setDeadline(afterMilliseconds: limits.headTimeoutMilliseconds) }
    }

    /// Sends the head of a streamed response, and from now on its bytes. Ends the stream instead if the request was
    /// refused before this call, or if the server stops.
    func beginStreaming(_ responseStream: HTTPResponseStream) {
        guard phase == .awaitingResponse, let request else { return responseStream.end() }
        self.responseStream = responseStream
        guard !server.isStopping else { return closeAfterSending() }
        phase = .streaming
        isChunked = request.isHTTP11
        unreadInput = []
        stream.resumeReading()
        setDeadline(afterMilliseconds: limits.idleTimeoutMilliseconds)
        write(responseStream.initialResponse.makeHead(isChunked ? .chunked : .untilConnectionEnds, keepsAlive: false))
        if request.method == "HEAD" { closeAfterSending() } else { sendStreamedBytes() }
    }

    /// Sends the waiting bytes of the `HTTPResponseStream`. Does nothing if more than ``Stream/highWaterBytes`` of
    /// earlier bytes still wait in the connection's `stream`.
    func sendStreamedBytes() {
        guard phase == .streaming, let responseStream, stream.pendingOutputBytes <= Stream.highWaterBytes
        else { return }
        let (bytes, isLast) = responseStream.takeWaitingOutput()
        if !bytes.isEmpty {
            if isChunked { write(Array("\(String(bytes.count, radix: 16))\r\n".utf8)) }
            write(bytes)
            if isChunked { write([0x0D, 0x0A]) }
        }
        guard isLast else { return }
        if isChunked { write(Array("0\r\n\r\n".utf8)) }
        closeAfterSending()
    }

    private func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { stream.write($0) }
        writtenBytes += bytes.count
    }

    // MARK: - Ends of the connection

    private func setDeadline(afterMilliseconds milliseconds: Int64) {
        deadlineMilliseconds = server.loop.nowMilliseconds + milliseconds
    }

    /// Ends the connection or refuses its request if the deadline has passed. Before this check, moves the deadline if
    /// the client is not slow: it has acknowledged bytes of its response since the last call, or its
    /// `HTTPResponseStream` has nothing to send. The server calls this every `deadlineCheckIntervalMilliseconds`.
    func enforceDeadline() {
        let pendingBytes = stream.pendingOutputBytes
        let acknowledgedBytes = writtenBytes - stream.unacknowledgedOutputBytes
        let isClientReading = acknowledgedBytes > acknowledgedBytesAtLastCheck
        switch phase {
        case .sending, .streaming, .ending:
            let isStreamEmpty = phase == .streaming && pendingBytes == 0
            if isClientReading || isStreamEmpty { setDeadline(afterMilliseconds: limits.idleTimeoutMilliseconds) }
        case .readingHead:
            // The client still reads the last response, whose end is in the stream's buffer. Closing now would discard
            // this end.
            if isClientReading, unreadInput.isEmpty, pendingBytes > 0 {
                setDeadline(afterMilliseconds: limits.idleTimeoutMilliseconds)
            }
        case .readingBody, .awaitingResponse: break
        }
        acknowledgedBytesAtLastCheck = acknowledgedBytes
        guard deadlineMilliseconds <= server.loop.nowMilliseconds else { return }
        switch phase {
        case .readingHead where unreadInput.isEmpty: close()
        case .readingHead, .readingBody: refuse(408)
        case .awaitingResponse: refuse(503)
        case .sending, .streaming, .ending: close()
        }
    }

    /// Makes the connection end soon, because the server stops: a response in progress may still be sent, but a
    /// streamed response ends now.
    func stop() {
        switch phase {
        case .readingHead, .readingBody, .streaming: closeAfterSending()
        case .sending: keepsAlive = false
        case .awaitingResponse, .ending: break
        }
    }

    /// Discards the request's body and ends a streamed response. The connection closes when the written bytes are sent.
    private func closeAfterSending() {
        phase = .ending
        discardBody()
        unreadInput = []
        responseStream?.end()
        responseStream = nil
        setDeadline(afterMilliseconds: limits.idleTimeoutMilliseconds)
        stream.resumeReading()
        stream.shutDownAfterFlush()
    }

    func close() {
        phase = .ending
        discardBody()
        responseStream?.end()
        responseStream = nil
        stream.close()
        server.connectionEnded(self)
    }
}
