/// Why a stream could not be connected, or did not end in an orderly way.
public struct StreamError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: Sendable, Equatable {
        /// The connection could not be made, with the errno of the failed system call.
        case connectFailed(Int32)
        /// The connection, or TLS if it is used, was not established within the time limit.
        case connectTimeout
        /// The TLS handshake failed, or the two sides agreed on no application protocol although this side has a list
        /// of them (ALPN).
        case handshakeFailed
        /// The peer's certificate was refused, for example because it is not trusted, is out of date, or is for another
        /// name.
        case certificateRefused
        /// The peer reset the connection, or closed it while output was waiting.
        case connectionReset
        /// TLS ended without close_notify, so the end may be forged and bytes may be missing.
        case truncated
        /// TLS failed after the handshake: for example, a record did not verify, or the peer sent an alert.
        case tlsFailed
        /// More output waited than `Stream.outputBytesMax`.
        case outputLimitExceeded
        /// A failure of the socket that no other case describes, with its errno.
        case systemCallFailed(Int32)
    }

    public var code: Code
    /// The reason of the failure for logs: a text of the system, of OpenSSL, or of this module.
    public var reason: String

    public init(code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    public var description: String { "\(code): \(reason)" }
}
