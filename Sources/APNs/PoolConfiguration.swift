public import Reactor

/// The settings of a pool: its server, limits and times. Times are in milliseconds.
public struct PoolConfiguration {
    /// The service's host name or numeric address. Each new connection looks the name up again.
    public var host: String
    /// The service's port: 443, or Apple's alternative 2197. Range 1 to 65,535.
    public var port: UInt16
    /// The TLS settings of the connections. They must be those of a client, and offer only the protocol `h2` (ALPN).
    public var tls: TLSContext
    /// The name that the server's certificate must contain. Requests also send it in `:authority`, followed by the port
    /// if the port is not 443.
    public var serverName: String
    public var appHeaders: AppPushHeaders
    /// Whether the pool also sends pushes to devices; false: only broadcasts. In a pool with both, a refusal that may
    /// concern only broadcasts (``PushResponse/mayRefuseOnlyBroadcasts``) does not open the breaker.
    public var sendsDevicePushes = true
    /// How many connections the pool wants at most for its load (``PoolSizing``). The pool may have more for a short
    /// time, to replace connections or to try a new signing key. Range 1 to 16: users of the library pushy say that
    /// even a whole process gains nothing from more than about 16 connections (pushy discussion 1052).
    public var connectionsMax = 2
    /// How many connections the pool wants at least, even without load. Range 1 to `connectionsMax`.
    public var connectionsMin = 1
    /// For how long the pool must have needed one connection fewer before it retires one. The time is long, because
    /// Apple asks for connections that last. Range 10 to 86,400,000.
    public var shrinkAfterMilliseconds: Int64 = 600_000
    /// The limits on the process's connections. If a process has several pools, all must get the same object. The
    /// default is a budget for this pool alone.
    public var connectionBudget = ConnectionBudget()
    /// The maximum number of pushes in flight on one connection; APNs may allow fewer. Range 1 to 4,096.
    public var inFlightPushesPerConnectionMax = 1_000
    /// The longest time from submission to the response. A push that was sent completely and has no response by then is
    /// `ambiguous`. Range 10 to 120,000.
    public var requestTimeoutMilliseconds: Int64 = 10_000
    /// The longest time from the first packet to the end of the TLS handshake. Range 10 to 120,000.
    public var connectTimeoutMilliseconds: Int64 = 10_000
    /// The longest time from the end of the handshake to the server's SETTINGS frame. Range 10 to 120,000.
    public var settingsTimeoutMilliseconds: Int64 = 5_000
    /// After this time without a received byte, the connection sends a PING. Apple suggests one hour. Range 10 to
    /// 86,400,000.
    public var pingAfterIdleMilliseconds: Int64 = 3_600_000
    /// The longest time that the connection waits for the acknowledgement of a PING before it closes. Range 10 to
    /// 120,000.
    public var pingTimeoutMilliseconds: Int64 = 10_000
    /// How long the pool waits between the openings of two connections. A random part makes each wait up to a quarter
    /// shorter or longer. After failures, the back-off may lengthen the wait. Apple advises a few seconds (developer
    /// forums, thread 778909). Range 0 to 60,000.
    public var openingIntervalMilliseconds: Int64 = 2_000
    /// Half of this time, plus a random time that is at most this time, is the delay after the first failed look-up or
    /// connection: by default, 100 to 300 ms. The limit of the random part doubles with each further failure
    /// (``Backoff``). Range 1 to 60,000.
    public var backoffBaseMilliseconds: Int64 = 200
    /// The limit of the random part of the delay after failed look-ups or connections (``Backoff``), which several
    /// failures in a row can reach. Range `backoffBaseMilliseconds` to 600,000.
    public var backoffJitterMillisecondsMax: Int64 = 30_000
    /// The pool replaces a connection after this many requests. HTTP/2 gives a client 2^30 stream identifiers
    /// for each connection (RFC 9113, section 5.1.1). Range 1 to 1,000,000,000.
    public var requestsPerConnectionMax: Int64 = 1_000_000_000
    public var breaker = CircuitBreakerConfiguration()

    public init(
        host: String,
        port: UInt16 = 443,
        tls: TLSContext,
        serverName: String? = nil,
        appHeaders: AppPushHeaders
    ) {
        self.host = host
        self.port = port
        self.tls = tls
        self.serverName = serverName ?? host
        self.appHeaders = appHeaders
    }

    /// Checks all settings. Throws ``InvalidSettingError`` for the first one with a value that is not allowed.
    public func validate() throws(InvalidSettingError) {
        try require("host", host.utf8.count, in: 1...253)
        try require("serverName", serverName.utf8.count, in: 1...253)
        guard serverName.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw InvalidSettingError(setting: "serverName", detail: "must be printable ASCII without spaces")
        }
        try require("port", Int(port), in: 1...65_535)
        try require("connectionsMax", connectionsMax, in: 1...16)
        try require("connectionsMin", connectionsMin, in: 1...connectionsMax)
        try require("shrinkAfterMilliseconds", shrinkAfterMilliseconds, in: 10...86_400_000)
        try require("inFlightPushesPerConnectionMax", inFlightPushesPerConnectionMax, in: 1...4_096)
        try require("requestTimeoutMilliseconds", requestTimeoutMilliseconds, in: 10...120_000)
        try require("connectTimeoutMilliseconds", connectTimeoutMilliseconds, in: 10...120_000)
        try require("settingsTimeoutMilliseconds", settingsTimeoutMilliseconds, in: 10...120_000)
        try require("pingAfterIdleMilliseconds", pingAfterIdleMilliseconds, in: 10...86_400_000)
        try require("pingTimeoutMilliseconds", pingTimeoutMilliseconds, in: 10...120_000)
        try require("openingIntervalMilliseconds", openingIntervalMilliseconds, in: 0...60_000)
        try require("backoffBaseMilliseconds", backoffBaseMilliseconds, in: 1...60_000)
        try require("backoffJitterMillisecondsMax", backoffJitterMillisecondsMax, in: backoffBaseMilliseconds...600_000)
        try require("requestsPerConnectionMax", requestsPerConnectionMax, in: 1...1_000_000_000)
        try breaker.validate()
    }
}

/// - Throws: ``InvalidSettingError`` that names the setting, if the value is out of range.
func require<Value: Comparable>(
    _ setting: String,
    _ value: Value,
    in range: ClosedRange<Value>
) throws(InvalidSettingError) {
    guard range.contains(value) else {
        throw InvalidSettingError(
            setting: setting,
            detail: "is \(value), must be \(range.lowerBound) to \(range.upperBound)"
        )
    }
}
