import Reactor

/// One request of an ``HTTPClient``, from its start to its result. Only the thread that runs its loop may use the
/// object.
final class HTTPClientRequest: StreamHandler, TimerHandler, DescriptorHandler {
    private let loop: EventLoop
    private let client: HTTPClient
    private let method: String
    private let requestHead: [UInt8]
    private let requestBody: [UInt8]
    private var addressAttempts: AddressAttempts?
    private var stream: Stream?
    /// What is left to send of the request's body. Nil until the connection is open.
    private var unsentBody: HTTPBodyWriter?
    /// Received bytes that are not parsed yet. Only heads are read from here; after the head of the final response
    /// (status 200 or higher), `bodyReader` gets all bytes.
    private var unreadInput: [UInt8] = []
    private var status = 0
    /// Reads the response's body. Nil until the head of the final response is complete. Always nil if the client reads
    /// only the status.
    private var bodyReader: HTTPBodyReader?
    private var result: Result<HTTPClient.Response, HTTPClientError>?
    private var deadlineTimer = TimerIdentifier.none
    private var deadlineMilliseconds: Int64 = 0

    init(_ client: HTTPClient, method: String, head: [UInt8], body: [UInt8]) throws(SystemError) {
        loop = try EventLoop()
        self.client = client
        self.method = method
        requestHead = head
        requestBody = body
    }

    /// Sends the request, and blocks the thread until the request has its result. Call it once.
    func run() throws(HTTPClientError) -> HTTPClient.Response {
        begin()
        if result == nil { loop.run() }
        guard let result else { preconditionFailure("the loop ends with the request") }
        return try result.get()
    }

    private func begin() {
        loop.refreshClock()
        let timeoutMilliseconds = Int64(client.timeoutMilliseconds)
        deadlineMilliseconds = loop.nowMilliseconds + timeoutMilliseconds
        deadlineTimer = loop.schedule(afterMilliseconds: timeoutMilliseconds, handler: self, tag: 0)
        if let cancellationWakeup = client.cancellationWakeup {
            do throws(SystemError) {
                try loop.add(descriptor: cancellationWakeup.descriptor, interest: .readable, handler: self)
            } catch {
                return fail(.connectFailed, error.description)
            }
        }
        // Weak, because the request may end, for example at its deadline, before the thread that looks up the name
        // responds.
        loop.resolve(host: client.address.server.host, port: client.address.server.port) { [weak self] resolution in
            self?.hostResolved(resolution)
        }
    }

    private func hostResolved(_ resolution: Result<[SocketAddress], ResolveError>) {
        guard result == nil else { return }
        switch resolution {
        case .success(let addresses):
            addressAttempts = AddressAttempts(addresses, deadlineMilliseconds: deadlineMilliseconds)
            connectToNextAddress(after: (.resolveFailed, "no address"))
        case .failure(let error): fail(.resolveFailed, error.description)
        }
    }

    /// Connects to the next address of the server. If none is left, ends the request with `failure`, the fault of the
    /// previous address.
    private func connectToNextAddress(after failure: (cause: HTTPClientError.Cause, text: String)) {
        guard let (address, timeoutMilliseconds) = addressAttempts?.next(nowMilliseconds: loop.nowMilliseconds) else {
            return fail(failure.cause, failure.text)
        }
        let stream = Stream(loop: loop, handler: self)
        self.stream = stream
        stream.connect(
            to: address,
            tls: client.tls,
            serverName: client.address.server.host,
            timeoutMilliseconds: timeoutMilliseconds
        )
    }

    private func fail(_ cause: HTTPClientError.Cause, _ text: String) {
        end(.failure(HTTPClientError(cause: cause, description: text)))
    }

    /// Gives the request its result, closes the connection and stops the loop. Only the first call has an effect.
    private func end(_ result: Result<HTTPClient.Response, HTTPClientError>) {
        guard self.result == nil else { return }
        self.result = result
        stream?.close()
        loop.cancel(deadlineTimer)
        if let cancellationWakeup = client.cancellationWakeup { loop.remove(descriptor: cancellationWakeup.descriptor) }
        loop.stop()
    }

    // MARK: - Events of the connection

    func timerFired(tag: UInt64) { fail(.timedOut, "no response within the time limit") }

    func descriptorReady(_ events: DescriptorEvents) { fail(.cancelled, "the request was cancelled") }

    func streamConnected(_ stream: Stream) {
        requestHead.withUnsafeBytes { stream.write($0) }
        unsentBody = HTTPBodyWriter(requestBody)
        _ = unsentBody?.write(to: stream)
    }

    func streamHasRoom(_ stream: Stream) { _ = unsentBody?.write(to: stream) }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard result == nil else { return }
        do throws(HTTPFault) {
            if bodyReader != nil {
                _ = try bodyReader?.read(bytes)
                endIfComplete()
            } else {
                unreadInput.append(contentsOf: bytes)
                try readHeads()
            }
        } catch {
            if error == .bodyTooLarge {
                fail(.responseTooLarge, "the response is larger than \(client.responseBodyBytesMax >> 20) MiB")
            } else {
                fail(.responseMalformed, "the response is not HTTP")
            }
        }
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        let reason = error?.reason ?? ""
        switch error?.code {
        case .connectFailed:
            let server = stream.peer.map { "\($0)" } ?? client.address.server.description
            connectToNextAddress(after: (.connectFailed, "no server responds at \(server): \(reason)"))
        case .connectTimeout: connectToNextAddress(after: (.timedOut, reason))
        case .certificateRefused: connectToNextAddress(after: (.certificateRefused, "its certificate: \(reason)"))
        case nil where bodyReader?.lastsUntilConnectionEnds == true: endWithResponse()
        case nil: fail(.connectionLost, "the connection ended before the end of the response")
        default: fail(.connectionLost, reason)
        }
    }

    // MARK: - Reading the response

    /// Reads heads until that of the final response. A server may send informational responses (1xx) before.
    private func readHeads() throws(HTTPFault) {
        while bodyReader == nil, result == nil {
            guard let (head, byteCount) = try HTTPResponseHead.parse(unreadInput) else { return }
            unreadInput.removeFirst(byteCount)
            guard head.status >= 200 else { continue }
            status = head.status
            guard !client.readsOnlyStatus else { return endWithResponse() }
            let bodyFraming = try head.parseBodyFraming(method: method)
            bodyReader = try HTTPBodyReader(bodyFraming, bytesMax: client.responseBodyBytesMax)
            _ = try bodyReader?.read(unreadInput)
            endIfComplete()
        }
    }

    private func endIfComplete() {
        if bodyReader?.isComplete == true { endWithResponse() }
    }

    private func endWithResponse() {
        end(.success(HTTPClient.Response(status: status, body: bodyReader?.takeBody() ?? [])))
    }
}
