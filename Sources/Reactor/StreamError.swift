/// Why a stream ended other than by an orderly end.
public struct StreamError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: Sendable, Equatable {
        /// No connection could be made, with its errno.
        case connectFailed(Int32)
        /// The time limit ran out before the connection, and TLS if asked for, was up.
        case connectTimeout
        /// The TLS handshake failed, or agreed on no application protocol though some were offered.
        case handshakeFailed
        /// The peer's certificate was refused: not trusted, out of date, or for another name.
        case certificate
        /// The peer reset the connection, or closed it while output was under way.
        case reset
        /// TLS ended without close_notify: the end may have been forged, and bytes may be missing.
        case truncated
        /// The TLS layer failed after the handshake: a record that does not verify, or an alert from the peer.
        case tls
        /// More output was written than `Stream.outputBytesMax` holds.
        case outputLimit
        /// Another failure of the socket, with its errno.
        case system(Int32)
    }

    public var code: Code
    /// For logs: what failed, in the words of the system or of OpenSSL.
    public var reason: String

    public init(code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    public var description: String { "\(code): \(reason)" }
}
