import Logging

extension LogKindCatalog {
    static let apns: [LogKindDefinition] = [
        define(.apnsConnected, "apns-connected", .info, "APNs connection is up", "TLS and HTTP/2 are set up."),
        define(
            .apnsAuthenticated,
            "apns-authenticated",
            .info,
            "APNs connection is authenticated",
            "APNs accepted the provider token and now allows parallel pushes."
        ),
        define(
            .apnsStreamLimit,
            "apns-stream-limit",
            .debug,
            "APNs changed its stream limit",
            "APNs allows more or fewer pushes at once."
        ),
        define(
            .apnsGoaway,
            "apns-goaway",
            .notice,
            "APNs sent GOAWAY",
            "APNs ends a connection in an orderly way. Another connection is opened, and no push is lost.",
            "Read `reason`, if there is one: Apple's reason for ending the connection."
        ),
        define(
            .apnsRetiring,
            "apns-retiring",
            .info,
            "APNs connection takes no more pushes",
            "The connection waits for the responses to its pushes in flight."
        ),
        define(
            .apnsClosed,
            "apns-closed",
            .warning,
            "APNs connection has ended",
            "The connection broke or could not be made. It is retried with growing pauses.",
            "Read `cause` and `detail`. If all connections have connectFailed, check egress to port 443 or 2197, a proxy in between, and DNS."
        ),
        define(
            .apnsUntrusted,
            "apns-untrusted",
            .error,
            "APNs' certificate is not trusted",
            "The host was reached, but its certificate is refused: no authority in `authorities` signed it, it is out of date, or it is for "
                + "another name. The connection is retried with growing pauses.",
            "Read `detail`. Correct apns.caFile, or remove it to trust the system's authorities; these need the package ca-certificates. "
                + "A proxy that decrypts TLS presents a certificate of its own."
        ),
        define(
            .apnsUnresolved,
            "apns-unresolved",
            .warning,
            "APNs host has no address",
            "DNS has no address for Apple's host name.",
            "Check the cluster's DNS, and the network policy's rule for DNS."
        ),
        define(
            .apnsConnectionLimit,
            "apns-connection-limit",
            .notice,
            "no further APNs connection: the process has as many as it may",
            "The pool wants one more connection, but the process is at its limit, in all or per address. It is opened when there is room.",
            "Pushes continue over the existing connections. If they wait for long, run more workers."
        ),
        define(
            .apnsBreakerOpen,
            "apns-breaker-open",
            .critical,
            "APNs refuses too many pushes: only probes are sent, and no token is retired",
            "Pushes cannot succeed now, so they wait. Newer states replace them.",
            "Read `cause`. unavailability: see Apple's status page. deviceTokens: the tokens belong to the other "
                + "environment or to another bundle. providerToken: wrong key id or team id, or a key of the other environment."
        ),
        define(
            .apnsBreakerClosed,
            "apns-breaker-closed",
            .notice,
            "APNs accepts again",
            "A probe succeeded, so pushes continue."
        ),
        define(
            .apnsDrained,
            "apns-drained",
            .debug,
            "APNs pool is drained",
            "Every push of the pool has its response."
        ),
        define(
            .providerTokenRefused,
            "provider-token-refused",
            .critical,
            "APNs refuses the provider token",
            "The key, its id, its team or this machine's clock is wrong, or too many tokens are signed for the team.",
            "Read `reason`. Compare teamId and keyId with Apple's developer site, and check the machine's clock."
        ),
    ]
}
