import Reactor

/// How to reach a server, and the limits of a connection to it.
public struct RedisConfiguration: Sendable {
    public var url: RedisURL
    /// Needed if the URL asks for TLS.
    public var tls: TLSContext?
    /// What CLIENT LIST shows: printable, no spaces.
    public var clientName = "causeway"
    /// For TCP and TLS together, of one address.
    public var connectTimeoutMilliseconds: Int64 = 2_000
    /// How long the oldest outstanding call may wait for its reply before the connection is given up.
    public var responseDeadlineMilliseconds: Int64 = 2_000
    /// Calls that may be without a reply at a time.
    public var outstandingCallsMax = 4_096

    public init(url: RedisURL, tls: TLSContext? = nil) {
        self.url = url
        self.tls = tls
    }
}
