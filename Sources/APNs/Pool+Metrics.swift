extension Pool {
    /// The state of the pool's connections at this moment, for metrics.
    public var gauges: PoolGauges {
        var gauges = PoolGauges()
        gauges.awaitsConnectionBudget = openingSchedule.awaitsConnectionBudget
        for connection in connections {
            switch connection.phase {
            case .connecting, .awaitingSettings: gauges.openingConnectionCount += 1
            case .unauthenticated, .open: gauges.readyConnectionCount += 1
            case .draining, .closed: gauges.drainingConnectionCount += 1
            }
            gauges.streamsMax += connection.streamsMax
            gauges.inFlightPushCount += connection.inFlightPushCount
            gauges.providerTokenIssuedAtSeconds =
                connection.providerToken?.issuedAtSeconds ?? gauges.providerTokenIssuedAtSeconds
        }
        return gauges
    }
}

/// A pool's counters since its creation, for metrics.
public struct PoolStatistics: Sendable {
    /// Pushes that the pool took.
    public var submittedPushCount: UInt64 = 0
    /// Pushes that got their response.
    public var receivedResponseCount: UInt64 = 0
    /// Attempts to open a connection, also those that failed.
    public var connectionAttemptCount: UInt64 = 0
    /// Retries among the pushes that the pool took.
    public var retryCount: UInt64 = 0
    /// Responses whose `apns-id` (of a broadcast: `apns-request-id`) differs from the id that was sent.
    public var apnsIdMismatchCount: UInt64 = 0
}

/// A pool's state at this moment, for metrics.
public struct PoolGauges: Sendable, Equatable {
    /// Connections that take pushes.
    public var readyConnectionCount = 0
    /// Connections that are being opened.
    public var openingConnectionCount = 0
    /// Whether the pool waits for one more connection because the process has reached a limit of connections.
    public var awaitsConnectionBudget = false
    /// Connections that take no new push and wait for responses.
    public var drainingConnectionCount = 0
    /// How many pushes the ready connections together may have in flight: one in each of their streams. Connections
    /// that are being opened or drained count as 0 here, but `inFlightPushCount` counts the pushes of drained ones.
    public var streamsMax = 0
    /// Pushes in flight on all connections.
    public var inFlightPushCount = 0
    /// When the provider token of the newest connection that has one was issued, UNIX seconds; nil if no connection has
    /// a token.
    public var providerTokenIssuedAtSeconds: Int64?
}
