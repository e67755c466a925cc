/// An event of a pool or one of its connections, for logs and metrics.
public enum PoolEvent: Sendable {
    /// TLS and HTTP/2 are set up, and the connection may take its first push.
    case connected(connection: UInt32, peer: String)
    /// A response showed that APNs accepts the provider token. The connection now takes up to `streamsMax` pushes in
    /// parallel.
    case authenticated(connection: UInt32, streamsMax: Int)
    /// SETTINGS of APNs changed how many pushes the connection may have in flight.
    case streamLimitChanged(connection: UInt32, streamsMax: Int)
    /// APNs sent a GOAWAY frame. `reason` and `text` come from its debug data.
    case goAway(connection: UInt32, code: UInt32, reason: Reason, text: String)
    /// The connection takes no new push and waits for the responses to the pushes in flight.
    case retiring(connection: UInt32, cause: RetirementCause)
    /// The connection has ended. `detail` describes the cause in words, or is empty.
    case closed(connection: UInt32, cause: CloseCause, detail: String)
    /// The host name could not be resolved, so the pool tried no connection.
    case resolveFailed(host: String, detail: String)
    /// The pool wants one more connection, but the process has reached a limit of connections. Reported once,
    /// when the pool begins to wait.
    case connectionLimitReached(host: String)
    /// The breaker opened. The pool takes one probe at a time until the breaker closes.
    case breakerOpened(cause: BreakerCause)
    case breakerClosed
    /// A provider token or a new key cannot be used, for one of these reasons:
    /// - APNs responded with ExpiredProviderToken, UnrelatedKeyIdInToken, TooManyProviderTokenUpdates or
    ///   TopicDisallowed.
    /// - APNs refused the new key.
    /// - There is no token.
    case providerTokenFailed(reason: Reason, detail: String)
    /// ``Pool/drain()`` is complete: every push has its response and every connection is closed.
    case drained
}

/// Why a connection takes no more pushes.
public enum RetirementCause: UInt8, Sendable {
    /// APNs sent GOAWAY.
    case goAway
    /// APNs responded with IdleTimeout or Shutdown.
    case serverClosing
    /// The connection has no usable provider token, for one of these reasons:
    /// - APNs refused the token or its key, or responded with TooManyProviderTokenUpdates or TopicDisallowed.
    /// - The token is too old.
    /// - A new key has replaced the token's key.
    /// - The connection was trying a new key, but this key failed in another pool, or a newer key was offered.
    case providerToken
    /// The connection has sent `requestsPerConnectionMax` requests.
    case requestsMax
    /// Several pushes in a row timed out, or the breaker's probe timed out, or the server has allowed no stream for
    /// half a minute. This counts even if the peer still acknowledges PINGs.
    case unresponsive
    /// The pool has more connections than it wants.
    case surplus
    /// ``Pool/drain()`` was called.
    case draining
}

/// Why a connection ended.
public enum CloseCause: UInt8, Sendable {
    /// TCP or TLS could not be set up.
    case connectFailed
    /// The server's certificate was refused: for example, it is not trusted, out of date, or for another name.
    case certificateRefused
    /// TLS negotiated another protocol than `h2`, or none (RFC 9113, section 3.2).
    case notHTTP2
    /// The server's SETTINGS frame did not arrive in time (RFC 9113, section 3.4).
    case settingsTimeout
    /// The peer did not acknowledge a PING in time.
    case pingTimeout
    /// Pushes timed out and the peer had stopped reading.
    case outputStalled
    /// The peer broke HTTP/2 or exceeded one of our limits.
    case protocolError
    /// The peer closed the connection, or TCP or TLS failed, or no provider token was usable when the connection was
    /// set up.
    case connectionLost
    /// The connection was retired (``RetirementCause``), and has no push in flight any longer.
    case retired
    /// ``Pool/close()`` was called.
    case poolClosed
}
