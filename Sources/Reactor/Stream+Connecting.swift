import Glibc

extension Stream {
    /// Connects. Call the method once. The loop later reports the result by `streamConnected` or `streamClosed`. Output
    /// that is written before `streamConnected` is sent once the stream is connected.
    ///
    /// - Parameters:
    ///   - tls: a client's context, or nil for a stream without TLS.
    ///   - serverName: with TLS, the host name or numeric address that the certificate must contain. If nil, the
    ///     certificate must contain the numeric address. TLS on a Unix socket requires a name.
    ///   - timeoutMilliseconds: the limit for the connection and the TLS handshake together.
    public func connect(to address: SocketAddress, tls: TLSContext?, serverName: String?, timeoutMilliseconds: Int64) {
        guard case .idle = phase else { preconditionFailure("a stream connects once, and not after close") }
        precondition(!(tls?.isServer ?? false), "a connecting stream needs a client's TLS context")
        peer = address
        self.tls = tls
        self.serverName = serverName ?? (address.isUnix ? nil : address.host)
        let descriptor = socket(address.family, socketType, 0)
        guard descriptor >= 0 else { return fail(connectFailure(errno)) }
        transport = Transport(descriptor: descriptor)
        if !address.isUnix { setConnectionOptions(descriptor) }
        let result = address.withSockaddr { raw, length in Glibc.connect(descriptor, raw, length) }
        guard result == 0 || errno == EINPROGRESS else { return fail(connectFailure(errno)) }
        phase = .connecting
        startDeadline(afterMilliseconds: timeoutMilliseconds)
        updateInterest()
    }

    /// Prepares the socket of an accepted connection, and starts the handshake if the stream uses TLS.
    func startAcceptedConnection() {
        let descriptor = transport.descriptor
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            return fail(StreamError(code: .systemCallFailed(errno), reason: "fcntl: \(systemErrorText(errno))"))
        }
        if peer?.isUnix == false { setConnectionOptions(descriptor) }
        if tls == nil {
            phase = .accepted
            scheduleIterationEnd()
        } else {
            startDeadline(afterMilliseconds: Stream.acceptTimeoutMilliseconds)
            startHandshake()
        }
    }

    /// Handles the end of the connection attempt: starts the TLS handshake or opens the stream, or closes the stream if
    /// the attempt has failed. Called only from the loop.
    func finishConnecting() {
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(transport.descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 else {
            return closeAndReport(connectFailure(errno))
        }
        guard error == 0 else { return closeAndReport(connectFailure(error)) }
        if tls == nil {
            becomeOpen()
        } else {
            startHandshake()
            continueHandshake()
        }
    }

    private func startHandshake() {
        guard let tls else { preconditionFailure("a handshake without TLS") }
        do throws(TLSError) {
            transport.startTLS(try tls.makeTLSConnection(descriptor: transport.descriptor, serverName: serverName))
            phase = .handshaking
            updateInterest()
        } catch {
            fail(StreamError(code: .handshakeFailed, reason: error.reason))
        }
    }

    /// Continues the TLS handshake as far as the socket allows. Opens the stream when the handshake is complete, and
    /// closes the stream if the handshake fails. Called only from the loop.
    func continueHandshake() {
        guard case .handshaking = phase else { return }
        switch transport.handshake() {
        case .bytes:
            isTLSReadAwaitingWritable = false
            negotiatedProtocol = transport.applicationProtocol
            guard negotiatedProtocol != nil || tls?.expectsApplicationProtocol != true else {
                let reason = "the peer selected no application protocol (ALPN)"
                return closeAndReport(StreamError(code: .handshakeFailed, reason: reason))
            }
            becomeOpen()
        case .blockedUntilReadable:
            isTLSReadAwaitingWritable = false
            updateInterest()
        case .blockedUntilWritable:
            isTLSReadAwaitingWritable = true
            updateInterest()
        case .endOfStream:
            closeAndReport(StreamError(code: .handshakeFailed, reason: "the peer closed the connection"))
        case .failed:
            closeAndReport(transport.takeHandshakeFailure())
        }
    }

    /// Opens the stream, and calls `streamConnected`. Called only from the loop.
    func becomeOpen() {
        loop.cancel(deadlineTimer)
        deadlineTimer = .none
        phase = .open
        updateInterest()
        guard case .open = phase else { return }
        if output.count > 0 || isShutdownRequested { scheduleIterationEnd() }
        guard let handler else { return close() }
        handler.streamConnected(self)
        // The handshake may also have taken the peer's first bytes from the socket. Deliver these bytes now, because
        // the loop no longer reports them.
        if case .open = phase, transport.isTLS, !isReadingPaused { readInput() }
    }

    // MARK: - Time limits of connecting

    func startDeadline(afterMilliseconds: Int64) {
        deadlineTimer = loop.schedule(
            afterMilliseconds: afterMilliseconds,
            handler: self,
            tag: StreamTimer.deadline.rawValue
        )
    }

    /// Closes the stream because its deadline has passed: of connecting, of the handshake, or of the end of the peer's
    /// side.
    func closeAfterDeadline() {
        switch phase {
        case .connecting:
            closeAndReport(StreamError(code: .connectTimeout, reason: "the connection was not open in time"))
        case .handshaking:
            closeAndReport(StreamError(code: .connectTimeout, reason: "the TLS handshake did not end in time"))
        case .halfClosed:
            closeAndReport(nil)
        case .idle, .accepted, .open, .failing, .closed:
            break
        }
    }
}

private var socketType: Int32 {
    Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
}

private func connectFailure(_ error: Int32) -> StreamError {
    StreamError(code: .connectFailed(error), reason: systemErrorText(error))
}

/// Sets the options of a TCP socket. TCP_NODELAY: the kernel does not delay output, because the stream already collects
/// it. Keep-alive: the kernel notices within about two minutes that the peer of an idle connection has disappeared.
private func setConnectionOptions(_ descriptor: Int32) {
    setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
    setOption(descriptor, Int32(IPPROTO_TCP), TCP_KEEPIDLE, 60)
    setOption(descriptor, Int32(IPPROTO_TCP), TCP_KEEPINTVL, 15)
    setOption(descriptor, Int32(IPPROTO_TCP), TCP_KEEPCNT, 4)
}

func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
    var value = value
    // Ignore a failure, because the socket works without the option, too.
    _ = setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
}

/// The remote address; nil if the peer has no name, such as the connecting side of a Unix socket, or if the peer has
/// already disconnected.
func remoteAddress(of descriptor: Int32) -> SocketAddress? {
    readSocketAddress { getpeername(descriptor, $0, $1) }
}

func localAddress(of descriptor: Int32) -> SocketAddress? {
    readSocketAddress { getsockname(descriptor, $0, $1) }
}

private func readSocketAddress(
    _ call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
            call(raw, &length) == 0 ? SocketAddress(raw, length: length) : nil
        }
    }
}
