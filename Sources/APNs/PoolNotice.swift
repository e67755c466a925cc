/// What happens to a pool's connections, for logs and metrics.
public enum PoolNotice: Sendable {
    /// TLS and HTTP/2 are up; the first request may go.
    case connected(connection: UInt32, peer: String)
    /// The first answer came and APNs lets requests go side by side.
    case authenticated(connection: UInt32, streamsMax: Int)
    /// APNs changed how many streams it allows.
    case streamLimitChanged(connection: UInt32, streamsMax: Int)
    /// A GOAWAY frame came; `reason` and `text` are of its debug data.
    case goAway(connection: UInt32, code: UInt32, reason: Reason, text: String)
    /// No new push goes to this connection; what it has in flight is awaited.
    case retiring(connection: UInt32, cause: RetirementCause)
    /// The connection has ended; `detail` says more where there is more.
    case closed(connection: UInt32, cause: CloseCause, detail: String)
    /// No connection attempt could be made.
    case resolveFailed(host: String, detail: String)
    /// One more connection is wanted, and the process has as many as it may. Said once, until there is room.
    case roomAwaited(host: String)
    /// The breaker opened: the pool takes one probe at a time until it closes.
    case breakerOpened(cause: BreakerCause)
    case breakerClosed
    /// APNs refused the provider token, or none could be signed.
    case providerTokenTrouble(reason: Reason, detail: String)
    /// After ``Pool/drain()``: the last push has been answered and every connection is closed.
    case drained
}

/// Why a connection takes no more pushes.
public enum RetirementCause: UInt8, Sendable {
    /// APNs sent GOAWAY.
    case goAway
    /// APNs answered IdleTimeout or Shutdown.
    case serverClosing
    /// APNs refused the connection's provider token, or its key.
    case providerToken
    /// It has carried as many requests as one connection may.
    case requestsMax
    /// The pool needs one connection fewer.
    case surplus
    /// The pool drains.
    case draining
}

/// Why a connection ended.
public enum CloseCause: UInt8, Sendable {
    /// TCP or TLS did not come up.
    case connectFailed
    /// TLS came up without `h2` (RFC 9113, section 3.2).
    case notHTTP2
    /// No SETTINGS frame came in time (RFC 9113, section 3.4).
    case settingsTimeout
    /// A PING was not answered in time.
    case pingTimeout
    /// A request's time ran out while the peer was not reading.
    case outputStalled
    /// The peer broke HTTP/2, or a limit of ours.
    case protocolError
    /// The peer closed, or TCP or TLS failed.
    case connectionLost
    /// Retired, and nothing in flight any more.
    case retired
    /// ``Pool/close()``.
    case poolClosed
}

/// What a pool has counted since it was made, for metrics.
public struct PoolStatistics: Sendable {
    /// Pushes taken.
    public var submitted: UInt64 = 0
    /// Pushes that came to their answer.
    public var answered: UInt64 = 0
    /// Connections that were tried.
    public var connectionsOpened: UInt64 = 0
    /// Pushes taken that had been sent before.
    public var retries: UInt64 = 0
    /// Answers whose `apns-id` was not the one sent.
    public var identifiersChanged: UInt64 = 0
}

/// What a pool has at this moment, for metrics.
public struct PoolGauges: Sendable, Equatable {
    /// Connections that take pushes.
    public var connectionsReady = 0
    /// Connections on their way.
    public var connectionsOpening = 0
    /// One more is wanted, and the process has as many as it may.
    public var awaitsRoom = false
    /// Connections that only await answers.
    public var connectionsDraining = 0
    /// Pushes that may be in flight on those that are ready.
    public var streams = 0
    /// Pushes in flight.
    public var inFlight = 0
    /// When the provider token of the newest connection was issued, UNIX seconds; -1 if there is none.
    public var providerTokenIssuedAtSeconds: Int64 = -1
}
