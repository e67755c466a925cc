/// An event of a pool or one of its connections, for logs and metrics.
public enum PoolEvent: Sendable {
    /// TLS and HTTP/2 are set up; the first request may be sent.
    case connected(connection: UInt32, peer: String)
    /// A response showed that APNs accepts the provider token. APNs now accepts requests in parallel.
    case authenticated(connection: UInt32, streamsMax: Int)
    /// APNs changed how many streams it allows.
    case streamLimitChanged(connection: UInt32, streamsMax: Int)
    /// A GOAWAY frame came. Its debug data holds `reason` and `text`.
    case goAway(connection: UInt32, code: UInt32, reason: Reason, text: String)
    /// The connection takes no new push and waits for the responses to the pushes in flight.
    case retiring(connection: UInt32, cause: RetirementCause)
    /// The connection has ended. `detail` says more, or is empty.
    case closed(connection: UInt32, cause: CloseCause, detail: String)
    /// The host name could not be resolved, so no connection was tried.
    case resolveFailed(host: String, detail: String)
    /// The pool wants one more connection, and the process has reached its limit. Sent once for each such
    /// wait.
    case roomAwaited(host: String)
    /// The breaker opened: the pool takes one probe at a time until it closes.
    case breakerOpened(cause: BreakerCause)
    case breakerClosed
    /// APNs refused the provider token, or none could be signed.
    case providerTokenTrouble(reason: Reason, detail: String)
    /// ``Pool/drain()`` is complete: every push has its response and every connection is closed.
    case drained
}

/// Why a connection takes no more pushes.
public enum RetirementCause: UInt8, Sendable {
    /// APNs sent GOAWAY.
    case goAway
    /// APNs answered IdleTimeout or Shutdown.
    case serverClosing
    /// APNs refused the connection's provider token or its key, the connection has no token that it may use,
    /// or another key replaces its key.
    case providerToken
    /// The connection has sent `requestsPerConnectionMax` requests.
    case requestsMax
    /// The pool wants one connection fewer.
    case surplus
    /// The pool drains.
    case draining
}

/// Why a connection ended.
public enum CloseCause: UInt8, Sendable {
    /// TCP or TLS could not be set up.
    case connectFailed
    /// The server's certificate was refused: not trusted, out of date, or for another name.
    case certificateRefused
    /// TLS negotiated another protocol than `h2`, or none (RFC 9113, section 3.2).
    case notHTTP2
    /// No SETTINGS frame came in time (RFC 9113, section 3.4).
    case settingsTimeout
    /// A PING was not answered in time.
    case pingTimeout
    /// Pushes timed out and the peer had stopped reading.
    case outputStalled
    /// The peer broke HTTP/2 or exceeded one of our limits.
    case protocolError
    /// The peer closed the connection, or TCP or TLS failed.
    case connectionLost
    /// The connection was retired and has nothing in flight.
    case retired
    /// ``Pool/close()`` was called.
    case poolClosed
}

/// A pool's counters since it was made, for metrics.
public struct PoolStatistics: Sendable {
    /// Pushes taken.
    public var submitted: UInt64 = 0
    /// Pushes that got their response.
    public var answered: UInt64 = 0
    /// Connections that the pool tried to open.
    public var connectionsOpened: UInt64 = 0
    /// Pushes taken that are retries.
    public var retries: UInt64 = 0
    /// Responses whose `apns-id` differs from the id that was sent.
    public var identifiersChanged: UInt64 = 0
}

/// A pool's state at this moment, for metrics.
public struct PoolGauges: Sendable, Equatable {
    /// Connections that take pushes.
    public var connectionsReady = 0
    /// Connections that are being opened.
    public var connectionsOpening = 0
    /// Whether the pool waits for one more connection because the process has reached its limit.
    public var awaitsRoom = false
    /// Connections that only wait for responses.
    public var connectionsDraining = 0
    /// How many pushes the ready connections may have in flight.
    public var streams = 0
    /// Pushes in flight.
    public var inFlight = 0
    /// When the provider token of the newest connection was issued, UNIX seconds; -1 if no connection has
    /// one.
    public var providerTokenIssuedAtSeconds: Int64 = -1
}
