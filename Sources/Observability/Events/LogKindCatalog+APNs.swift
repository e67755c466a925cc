import Logging

extension LogKindCatalog {
    static let apns: [LogKindDefinition] = [
        define(
            .apnsConnected,
            "apns-connected",
            .info,
            message: "APNs connection is up",
            meaning: "TLS and HTTP/2 are set up."
        ),
        define(
            .apnsAuthenticated,
            "apns-authenticated",
            .info,
            message: "APNs connection is authenticated",
            meaning: "APNs accepted the provider token and now allows parallel pushes."
        ),
        define(
            .apnsStreamLimit,
            "apns-stream-limit",
            .debug,
            message: "APNs changed its stream limit",
            meaning: "APNs allows more or fewer pushes at once."
        ),
        define(
            .apnsGoaway,
            "apns-goaway",
            .notice,
            message: "APNs sent GOAWAY",
            meaning: "APNs closes a connection gracefully. The worker opens another connection, and no push is lost.",
            action: "Read `reason`, if there is one: it is Apple's reason for closing the connection."
        ),
        define(
            .apnsRetiring,
            "apns-retiring",
            .info,
            message: "APNs connection accepts no more pushes",
            meaning: "The connection waits for the responses to its pushes in flight."
        ),
        define(
            .apnsClosed,
            "apns-closed",
            .warning,
            message: "APNs connection was closed or could not be opened",
            meaning: """
                If the level is info, the worker closed the connection itself. Otherwise the connection was lost or \
                could not be opened, and the worker tries again at growing intervals.
                """,
            action: """
                Read `cause` and `detail`. If all connections have connectFailed, check egress to port 443 or 2197, \
                any proxy, and DNS.
                """
        ),
        define(
            .apnsUntrusted,
            "apns-untrusted",
            .error,
            message: "APNs' certificate is not trusted",
            meaning: """
                The worker reached the host, but refused its certificate: no authority in `authorities` signed it, it \
                has expired, or it is for another name. The worker tries again at growing intervals.
                """,
            action: """
                Read `detail`. Correct apns.caFile, or remove it to trust the system's authorities; these need the \
                package ca-certificates. A proxy that decrypts TLS presents a certificate of its own.
                """
        ),
        define(
            .apnsUnresolved,
            "apns-unresolved",
            .warning,
            message: "the host name of APNs cannot be resolved",
            meaning: "DNS has no address for the host name.",
            action: "Check the cluster's DNS, and the network policy's rule for DNS."
        ),
        define(
            .apnsConnectionLimit,
            "apns-connection-limit",
            .notice,
            message: "no further APNs connection is opened: the process has reached its limit",
            meaning: """
                The pool needs one more connection, but the process has reached its limit of connections, in total or \
                for this address. The connection is opened when another one is closed.
                """,
            action: "Pushes continue on the existing connections. If they wait for long, run more workers."
        ),
        define(
            .apnsBreakerOpen,
            "apns-breaker-open",
            .critical,
            message: "APNs refuses too many pushes: only probes are sent, and no token is retired",
            meaning: "Pushes cannot succeed now, so they wait. Newer states replace waiting ones.",
            action: """
                Read `cause`. unavailability: see Apple's status page. deviceTokens: the tokens belong to the other \
                environment or to another bundle. providerToken: wrong key id, team id or bundle id, a key of the \
                other environment, or a proxy that responds in APNs' place.
                """
        ),
        define(
            .apnsBreakerClosed,
            "apns-breaker-closed",
            .notice,
            message: "APNs accepts pushes again",
            meaning: "A probe succeeded, so pushes continue."
        ),
        define(
            .apnsDrained,
            "apns-drained",
            .debug,
            message: "APNs pool is drained",
            meaning: "Every push of the pool has got its response."
        ),
        define(
            .providerTokenRefused,
            "provider-token-refused",
            .critical,
            message: "APNs refuses the provider token",
            meaning: """
                The key, its key id, its team id or this machine's clock is wrong, the key may not send to the app, or \
                too many provider tokens are signed for the team.
                """,
            action: """
                Read `reason`. Compare teamId, keyId and bundleId with Apple's developer site, and check the machine's \
                clock.
                """
        ),
    ]
}
