import COpenSSL
import Glibc

enum TransferResult {
    case bytes(Int)
    /// The operation can continue only when the socket is readable. A write has this result if TLS must read first.
    case blockedUntilReadable
    /// The operation can continue only when the socket is writable. A read has this result if TLS must write first.
    case blockedUntilWritable
    /// The peer ended the stream in an orderly way: end of file, or close_notify under TLS.
    case endOfStream
    /// The operation failed: `Transport.takeFailure()` returns the reason.
    case failed
}

/// A stream's socket, with or without TLS; no socket if the descriptor is negative. `Transport` owns the socket and
/// OpenSSL's state of the TLS connection, and releases both at its end.
struct Transport: ~Copyable {
    let descriptor: Int32
    /// OpenSSL's state of the TLS connection (`SSL`); nil without TLS.
    private var tlsConnection: OpaquePointer?
    private var failureErrno: Int32 = 0
    private var failureSSLCode: Int32 = SSL_ERROR_NONE

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        if let tlsConnection { SSL_free(tlsConnection) }
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    var isTLS: Bool { tlsConnection != nil }

    /// Adds TLS to the connection. `Transport` owns `tlsConnection` from now on.
    ///
    /// - Parameter tlsConnection: what ``TLSContext/makeTLSConnection(descriptor:serverName:)`` made for this
    ///   descriptor.
    mutating func startTLS(_ tlsConnection: OpaquePointer) {
        precondition(self.tlsConnection == nil)
        self.tlsConnection = tlsConnection
    }

    // MARK: - Moving bytes

    /// Reads from TLS or from the socket, without blocking.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> TransferResult {
        guard let tlsConnection else { return readSocket(into: buffer) }
        var count = 0
        ERR_clear_error()
        let result = SSL_read_ex(tlsConnection, buffer.baseAddress, buffer.count, &count)
        return result == 1 ? .bytes(count) : transferResult(of: result, tlsConnection)
    }

    /// Writes to TLS or to the socket, without blocking. `.bytes` says how many bytes were taken, perhaps not all.
    mutating func write(_ bytes: UnsafeRawBufferPointer) -> TransferResult {
        guard let tlsConnection else { return writeSocket(bytes) }
        var count = 0
        ERR_clear_error()
        let result = SSL_write_ex(tlsConnection, bytes.baseAddress, bytes.count, &count)
        return result == 1 ? .bytes(count) : transferResult(of: result, tlsConnection)
    }

    /// Continues the handshake. Returns `.bytes(0)` when it is complete.
    mutating func handshake() -> TransferResult {
        guard let tlsConnection else { return .bytes(0) }
        ERR_clear_error()
        let result = SSL_do_handshake(tlsConnection)
        return result == 1 ? .bytes(0) : transferResult(of: result, tlsConnection)
    }

    /// Whether TLS has taken bytes from the socket that `read` has not returned. The loop cannot report these bytes,
    /// because the kernel no longer has them.
    var hasBufferedInput: Bool {
        guard let tlsConnection else { return false }
        return SSL_has_pending(tlsConnection) == 1
    }

    /// How many bytes the socket has taken that the peer's system has not acknowledged, with the bytes that TLS added.
    /// 0 if the kernel does not report the number.
    var unacknowledgedBytes: Int {
        var count: Int32 = 0
        guard descriptor >= 0, ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 else { return 0 }
        return Int(count)
    }

    /// Sends close_notify, if the stream has TLS and the socket takes bytes now: the peer then knows that no more
    /// output follows.
    mutating func sendCloseNotify() {
        guard let tlsConnection else { return }
        ERR_clear_error()
        _ = SSL_shutdown(tlsConnection)
        ERR_clear_error()
    }

    /// Ends our side: sends close_notify under TLS, and shuts down the socket for writing.
    mutating func shutDownWriting() {
        sendCloseNotify()
        _ = Glibc.shutdown(descriptor, Int32(SHUT_WR))
    }

    private mutating func readSocket(into buffer: UnsafeMutableRawBufferPointer) -> TransferResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .endOfStream }
            if errno == EAGAIN { return .blockedUntilReadable }
            if errno != EINTR { return fail(errno) }
        }
    }

    private mutating func writeSocket(_ bytes: UnsafeRawBufferPointer) -> TransferResult {
        while true {
            let count = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return .bytes(count) }
            if errno == EAGAIN { return .blockedUntilWritable }
            if errno != EINTR { return fail(errno) }
        }
    }

    private mutating func fail(_ error: Int32) -> TransferResult {
        failureErrno = error
        failureSSLCode = SSL_ERROR_SYSCALL
        return .failed
    }

    private mutating func transferResult(of result: Int32, _ tlsConnection: OpaquePointer) -> TransferResult {
        let savedErrno = errno
        let code = SSL_get_error(tlsConnection, result)
        switch code {
        case SSL_ERROR_WANT_READ: return .blockedUntilReadable
        case SSL_ERROR_WANT_WRITE: return .blockedUntilWritable
        case SSL_ERROR_ZERO_RETURN: return .endOfStream
        default:
            failureErrno = savedErrno
            failureSSLCode = code
            return .failed
        }
    }

    // MARK: - State of TLS

    /// The application protocol that ALPN agreed on; nil if there is none.
    var applicationProtocol: String? {
        guard let tlsConnection else { return nil }
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(tlsConnection, &name, &count)
        guard let name, count > 0 else { return nil }
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// Returns the error of a handshake that ended with `.failed`. Call this once, before the thread uses OpenSSL
    /// again: it empties OpenSSL's queue of errors, which all connections of the thread share.
    func takeHandshakeFailure() -> StreamError {
        if let tlsConnection {
            let verification = SSL_get_verify_result(tlsConnection)
            if verification != X509_V_OK {
                ERR_clear_error()
                let reason = String(cString: X509_verify_cert_error_string(verification))
                return StreamError(code: .certificateRefused, reason: reason)
            }
        }
        let failure = takeFailure()
        return StreamError(code: .handshakeFailed, reason: failure.reason)
    }

    /// Returns the error of a transfer that ended with `.failed`, or of a write that ended with `.endOfStream`. Call
    /// this once, before the thread uses OpenSSL again: it empties OpenSSL's queue of errors, which all connections of
    /// the thread share.
    func takeFailure() -> StreamError {
        if failureSSLCode == SSL_ERROR_SSL {
            let isTruncated = openSSLReason(of: ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
            return StreamError(code: isTruncated ? .truncated : .tlsFailed, reason: takeOpenSSLReason())
        }
        ERR_clear_error()
        switch failureErrno {
        case 0: return StreamError(code: .truncated, reason: "the connection ended inside TLS")
        case ECONNRESET, EPIPE: return StreamError(code: .connectionReset, reason: systemErrorText(failureErrno))
        default: return StreamError(code: .systemCallFailed(failureErrno), reason: systemErrorText(failureErrno))
        }
    }
}

private func openSSLReason(of code: UInt) -> Int32 {
    Int32(truncatingIfNeeded: code & UInt(ERR_REASON_MASK))
}
