import Reactor

/// An HTTP request that creates, lists, reads or deletes channels.
struct ManagementRequest: Sendable {
    enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case delete = "DELETE"
    }

    var method: Method
    var path: String
    /// The header fields besides those that every request has. Names are in lower case.
    var headerFields: [(name: String, value: String)] = []
    var body: [UInt8] = []
}

struct ManagementResponse: Sendable {
    var status: Int
    var channelIdentifier: String?
    var body: [UInt8]
}

/// A connection to the management service for one request, with an event loop of its own on the caller's thread. Its
/// phases, in this order:
/// - `connecting`: resolves the name, connects, and negotiates TLS with the protocol *h2*.
/// - `awaitingSettings`: has sent the preface, and sends the request when SETTINGS allow a stream.
/// - `awaitingResponse`: waits for the whole response.
/// - `ended`: has a response or a fault. Every phase can lead here.
final class ManagementExchange: StreamHandler, TimerHandler, DescriptorHandler {
    /// The maximum size of a response's body. A list of 10,000 channels takes about 300 kB, and Apple does not
    /// limit the length of ids.
    private static let responseBodyBytesMax = 4 << 20
    private static let streamIdentifier: Int32 = 1
    private static let streamWindowBytes = 1 << 20

    private enum Phase {
        case connecting, awaitingSettings, awaitingResponse, ended
    }

    let loop: EventLoop
    private let endpoint: ManagementEndpoint
    private let request: ManagementRequest
    private let authorization: String
    /// The caller signals this wakeup when it no longer waits for the response.
    private let cancellationWakeup: Wakeup
    private var phase = Phase.connecting
    private var addressAttempts: AddressAttempts?
    private var transportStream: Stream?
    private var frameReader = FrameReader()
    private var peerSettings = PeerSettings()
    private var deadlineTimer = TimerIdentifier.none
    private var deadlineMilliseconds: Int64 = 0
    private var usedReceiveWindowBytes = 0
    private var response = ManagementResponse(status: 0, channelIdentifier: nil, body: [])
    private var result: Result<ManagementResponse, ManagementFault>?

    init(
        _ request: ManagementRequest,
        to endpoint: ManagementEndpoint,
        authorization: String,
        cancellationWakeup: Wakeup
    ) throws(SystemError) {
        loop = try EventLoop()
        self.cancellationWakeup = cancellationWakeup
        self.request = request
        self.endpoint = endpoint
        self.authorization = authorization
    }

    /// Sends the request and returns the response or a fault. Blocks the thread until then.
    func run() -> Result<ManagementResponse, ManagementFault> {
        loop.refreshClock()
        deadlineMilliseconds = loop.nowMilliseconds + endpoint.timeoutMilliseconds
        deadlineTimer = loop.schedule(afterMilliseconds: endpoint.timeoutMilliseconds, handler: self, tag: 0)
        do throws(SystemError) {
            try loop.add(descriptor: cancellationWakeup.descriptor, interest: .readable, handler: self)
        } catch {
            fail(error.description)
        }
        // The exchange may end before the resolver responds, and the loop then still holds this closure. With a strong
        // reference, loop, closure and exchange would keep each other alive.
        loop.resolve(host: endpoint.host, port: endpoint.port) { [weak self] resolution in
            self?.hostResolved(resolution)
        }
        if result == nil { loop.run() }
        guard let result else { preconditionFailure("the loop ends with the exchange") }
        return result
    }

    private func hostResolved(_ resolution: Result<[SocketAddress], ResolveError>) {
        guard result == nil else { return }
        switch resolution {
        case .success(let resolvedAddresses):
            addressAttempts = AddressAttempts(resolvedAddresses, deadlineMilliseconds: deadlineMilliseconds)
            connectToNextAddress(after: "no address")
        case .failure(let error): fail("\(endpoint.host): \(error.description)")
        }
    }

    /// Connects to the host's next address. If none is left, ends the exchange with the failure of the last attempt.
    private func connectToNextAddress(after failure: String) {
        guard let (address, timeoutMilliseconds) = addressAttempts?.next(nowMilliseconds: loop.nowMilliseconds) else {
            return fail("\(endpoint.authority): \(failure)")
        }
        let stream = Stream(loop: loop, handler: self)
        transportStream = stream
        stream.connect(
            to: address,
            tls: endpoint.tls,
            serverName: endpoint.host,
            timeoutMilliseconds: timeoutMilliseconds
        )
    }

    /// Ends the exchange without a response. In `awaitingResponse` the request has been sent, so APNs may have
    /// processed it.
    private func fail(_ detail: String) {
        end(.failure(ManagementFault(mayHaveBeenProcessed: phase == .awaitingResponse, detail: detail)))
    }

    private func end(_ result: Result<ManagementResponse, ManagementFault>) {
        guard self.result == nil else { return }
        self.result = result
        phase = .ended
        transportStream?.flush()
        transportStream?.close()
        loop.cancel(deadlineTimer)
        loop.remove(descriptor: cancellationWakeup.descriptor)
        loop.stop()
    }

    func timerFired(tag: UInt64) {
        fail("\(endpoint.authority): no response within \(endpoint.timeoutMilliseconds) ms")
    }

    /// Called when the caller has signalled `cancellationWakeup`, the only descriptor that the exchange itself watches.
    func descriptorReady(_ events: DescriptorEvents) { fail("the request was cancelled") }

    // MARK: - Events of the TLS stream

    func streamConnected(_ stream: Stream) {
        guard stream.negotiatedProtocol == "h2" else { return fail("\(endpoint.authority) does not speak HTTP/2") }
        phase = .awaitingSettings
        write(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
        var preface: [UInt8] = []
        for (setting, value) in [
            (SettingIdentifier.headerTableSize, ManagementHeaderBlock.tableBytesMax), (SettingIdentifier.enablePush, 0),
            (SettingIdentifier.initialWindowSize, UInt32(Self.streamWindowBytes)),
        ] {
            withUnsafeBytes(of: setting.bigEndian) { preface.append(contentsOf: $0) }
            withUnsafeBytes(of: value.bigEndian) { preface.append(contentsOf: $0) }
        }
        writeFrame(FrameType.settings, streamIdentifier: 0, preface)
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        do throws(ConnectionFault) {
            var input = bytes
            while phase != .ended, let frame = try frameReader.nextFrame(&input) { try dispatch(frame) }
        } catch {
            fail("\(endpoint.authority) violated HTTP/2: \(error.detail)")
        }
    }

    func streamHasRoom(_ stream: Stream) {}

    func streamClosed(_ stream: Stream, error: StreamError?) {
        guard result == nil else { return }
        switch error?.code {
        case .connectFailed where phase == .connecting, .connectTimeout where phase == .connecting:
            connectToNextAddress(after: error?.reason ?? "")
        case nil: fail("\(endpoint.authority) closed the connection")
        default: fail("\(endpoint.authority): \(error?.description ?? "")")
        }
    }

    // MARK: - Reading and writing frames

    private func dispatch(_ frame: Frame) throws(ConnectionFault) {
        switch frame.type {
        case FrameType.settings: try settingsReceived(frame)
        case FrameType.ping:
            if frame.flags & FrameFlags.acknowledgement == 0 {
                writeFrame(FrameType.ping, flags: FrameFlags.acknowledgement, streamIdentifier: 0, Array(frame.payload))
            }
        case FrameType.headers: try headersReceived(frame)
        case FrameType.data: try dataReceived(frame)
        case FrameType.resetStream: resetReceived(frame)
        case FrameType.goAway: goAwayReceived(frame)
        case FrameType.pushPromise:
            throw ConnectionFault(.protocolError, "PUSH_PROMISE, which we have disabled (RFC 9113, 8.4)")
        default: break
        }
    }

    private func settingsReceived(_ frame: Frame) throws(ConnectionFault) {
        guard frame.flags & FrameFlags.acknowledgement == 0 else { return }
        try peerSettings.apply(frame.payload)
        writeFrame(FrameType.settings, flags: FrameFlags.acknowledgement, streamIdentifier: 0, [])
        guard phase == .awaitingSettings else { return }
        guard peerSettings.concurrentStreamsMax > 0 else { return }
        phase = .awaitingResponse
        sendRequest()
    }

    /// Sends the request. If the request's body does not fit into the flow-control windows, sends nothing and ends the
    /// exchange.
    private func sendRequest() {
        guard request.body.count <= min(65_535, Int(peerSettings.initialWindowBytes)) else {
            phase = .awaitingSettings
            return fail("\(endpoint.authority) does not accept a body of \(request.body.count) bytes")
        }
        var fields: [(name: String, value: String)] = [
            (":method", request.method.rawValue), (":scheme", "https"), (":authority", endpoint.authority),
            (":path", request.path), ("authorization", authorization),
        ]
        fields += request.headerFields
        if !request.body.isEmpty { fields.append(("content-type", "application/json")) }
        let endStreamFlag = request.body.isEmpty ? FrameFlags.endStream : FrameFlags.none
        writeFrame(
            FrameType.headers,
            flags: FrameFlags.endHeaders | endStreamFlag,
            streamIdentifier: Self.streamIdentifier,
            ManagementHeaderBlock.encode(fields)
        )
        guard !request.body.isEmpty else { return }
        writeFrame(FrameType.data, flags: FrameFlags.endStream, streamIdentifier: Self.streamIdentifier, request.body)
    }

    private func headersReceived(_ frame: Frame) throws(ConnectionFault) {
        guard frame.streamIdentifier == Self.streamIdentifier, phase == .awaitingResponse else {
            throw ConnectionFault(.protocolError, "a frame on an idle stream (RFC 9113, 5.1)")
        }
        var status = 0
        for field in try ManagementHeaderBlock.decode(frame.payload) {
            switch field.name {
            case ":status": status = Int(field.value) ?? 0
            case "apns-channel-id": response.channelIdentifier = field.value
            default: break
            }
        }
        // Take the status only from the final response. Trailers have no status, and an informational response (1xx)
        // comes before the final one.
        if response.status == 0, status >= 200 { response.status = status }
        if frame.flags & FrameFlags.endStream != 0 { finishResponse() }
    }

    private func dataReceived(_ frame: Frame) throws(ConnectionFault) {
        guard frame.streamIdentifier == Self.streamIdentifier, phase == .awaitingResponse else {
            throw ConnectionFault(.protocolError, "a frame on an idle stream (RFC 9113, 5.1)")
        }
        response.body.append(contentsOf: frame.payload)
        guard response.body.count <= Self.responseBodyBytesMax else {
            return fail("\(endpoint.authority) responded with more than \(Self.responseBodyBytesMax) bytes")
        }
        if frame.flags & FrameFlags.endStream != 0 { return finishResponse() }
        usedReceiveWindowBytes += frame.flowControlledBytes
        // Open the windows again whenever 16,384 bytes have arrived, well before the connection's window of 65,535
        // bytes is used up.
        guard usedReceiveWindowBytes >= 16_384 else { return }
        for identifier in [0, Self.streamIdentifier] {
            let increment = withUnsafeBytes(of: UInt32(usedReceiveWindowBytes).bigEndian) { Array($0) }
            writeFrame(FrameType.windowUpdate, streamIdentifier: identifier, increment)
        }
        usedReceiveWindowBytes = 0
    }

    private func finishResponse() {
        guard response.status > 0 else { return fail("\(endpoint.authority) responded without a status") }
        end(.success(response))
    }

    private func resetReceived(_ frame: Frame) {
        guard frame.streamIdentifier == Self.streamIdentifier else { return }
        let code = frame.payload.networkUInt32(at: 0)
        let isRefused = code == ErrorCode.refusedStream.rawValue
        let detail = "\(endpoint.authority) reset the request (\(code))"
        end(.failure(ManagementFault(mayHaveBeenProcessed: phase == .awaitingResponse && !isRefused, detail: detail)))
    }

    private func goAwayReceived(_ frame: Frame) {
        let lastStream = Int32(truncatingIfNeeded: frame.payload.networkUInt32(at: 0) & 0x7FFF_FFFF)
        // After a GOAWAY, the server still responds to the streams up to `lastStream`. If our request is one of them,
        // wait for its response.
        guard phase != .awaitingResponse || lastStream < Self.streamIdentifier else { return }
        let detail =
            """
            \(endpoint.authority) closes the connection: \
            \(ErrorContent(UnsafeRawBufferPointer(rebasing: frame.payload[8...])).reason)
            """
        end(.failure(ManagementFault(mayHaveBeenProcessed: false, detail: detail)))
    }

    private func writeFrame(
        _ type: UInt8,
        flags: UInt8 = FrameFlags.none,
        streamIdentifier: Int32,
        _ payload: [UInt8]
    ) {
        var header = [UInt8](repeating: 0, count: FrameHeader.byteCount)
        header.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            FrameHeader(payloadBytes: payload.count, type: type, flags: flags, streamIdentifier: streamIdentifier)
                .write(to: start)
        }
        write(header + payload)
    }

    private func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { transportStream?.write($0) }
    }
}
