import Logging

/// The definitions of all kinds of log lines.
package enum LogKindCatalog {
    /// The definitions in the order of ``LogKind``'s raw values.
    package static let definitions: [LogKindDefinition] = {
        let all = [worker, lifetimes, kafka, redis, apns, channels, keys, configuration, traces].flatMap { $0 }
        let sorted = all.sorted { $0.kind.rawValue < $1.kind.rawValue }
        precondition(sorted.map(\.kind) == LogKind.allCases, "each kind is defined once")
        return sorted
    }()

    static func define(
        _ kind: LogKind,
        _ identifier: String,
        _ level: Logger.Level,
        _ message: String,
        _ meaning: String,
        _ action: String = ""
    ) -> LogKindDefinition {
        LogKindDefinition(
            kind: kind,
            identifier: identifier,
            level: level,
            message: message,
            meaning: meaning,
            action: action
        )
    }

    private static let worker: [LogKindDefinition] = [
        define(
            .workerStarted,
            "worker-started",
            .info,
            "worker started",
            "The worker's threads run; the connections to Kafka, Redis and APNs may follow later."
        ),
        define(.workerStopped, "worker-stopped", .info, "worker stopped", "The worker has drained and left its group."),
        define(
            .workerFailed,
            "worker-failed",
            .critical,
            "the worker cannot continue",
            """
            A thread or a client could not start, or failed permanently. The process exits with code 70, and \
            Kubernetes restarts it.
            """,
            "Read `error`. If it happens at each start, the cause is the configuration or the machine."
        ),
        define(
            .workerDraining,
            "worker-draining",
            .info,
            "draining",
            "The worker received a signal to stop. It finishes the work in progress and begins no other."
        ),
        define(
            .drainTimeOver,
            "drain-time-over",
            .warning,
            "the drain did not end in time",
            "Redis, APNs or Kafka did not respond before the worker had to release its partitions. The next "
                + "owner reads the unsettled records again; Redis prevents a second push.",
            "If it happens at every stop, check the latency of Redis, APNs and Kafka, or raise worker.drainMilliseconds."
        ),
        define(
            .httpFailed,
            "http-failed",
            .warning,
            "the HTTP endpoint refused a request",
            "A client's request was too large, too slow, or not HTTP.",
            "Nothing, unless the client is your own probe or scraper."
        ),
    ]

    private static let keys: [LogKindDefinition] = [
        define(
            .keyReadableByOthers,
            "key-readable-by-others",
            .warning,
            "the key file is readable by others: chmod o-r, or defaultMode 0440",
            "Every user who can read the file can send pushes to your apps.",
            "Set defaultMode 0440 on the secret's volume, and fsGroup."
        ),
        define(
            .keyOffered,
            "key-offered",
            .notice,
            "a key file was replaced: one push tries the new key",
            "If APNs accepts the new key, it replaces the old key. Until then, all other pushes use the old key."
        ),
        define(
            .keyLoaded,
            "key-loaded",
            .notice,
            "the key of the key file is now in use",
            """
            A key file was replaced, and APNs accepts the new key. Or the file has the key in use again, after it was \
            missing or had another key.
            """
        ),
        define(
            .keyRejected,
            "key-rejected",
            .error,
            "a new key file cannot be used, or APNs refuses its key; the previous key stays in use",
            "The file on disk was replaced. `error` says what is wrong with the new file, or why APNs refuses its key.",
            "Read `error`, and write the complete file of the right key."
        ),
        define(
            .sharedTokenSigned,
            "shared-token-signed",
            .info,
            "signed a shared provider token",
            "One worker signs each shared token. The other workers read it from Redis."
        ),
        define(
            .sharedTokensUnavailable,
            "shared-tokens-unavailable",
            .warning,
            "the shared provider token cannot be read from Redis: the last one is used until it expires",
            "Redis is unreachable, or rejects the user.",
            "Read `error`, and repair Redis within an hour, before the last token expires."
        ),
        define(
            .sharedTokensAvailableAgain,
            "shared-tokens-available-again",
            .notice,
            "the shared provider token can be read from Redis again",
            "Redis replies again."
        ),
        define(
            .sharedTokenUnreadable,
            "shared-token-unreadable",
            .error,
            "the shared provider token cannot be decrypted",
            """
            A worker with another apns.sharedTokenKeyFile encrypted the token. This worker signs its own token, and \
            Apple may refuse so many tokens.
            """,
            "Give all workers of the fleet the same apns.sharedTokenKeyFile."
        ),
        define(
            .sharedTokenNotSigned,
            "shared-token-not-signed",
            .error,
            "a provider token could not be signed or encrypted",
            "OpenSSL could not sign or encrypt with the key.",
            "Check the key file, then restart the worker."
        ),
    ]

    private static let configuration: [LogKindDefinition] = [
        define(
            .configurationReloaded,
            "configuration-reloaded",
            .notice,
            "configuration reloaded",
            "The file was read again, after SIGHUP or because it changed; `changed` names the keys with new values."
        ),
        define(
            .configurationRejected,
            "configuration-rejected",
            .error,
            "the configuration was not reloaded: it has errors, and the previous one stays in use",
            "The worker uses no value of the new file. A worker that starts with this file exits with code 78.",
            "Read `errors`, and correct the file; causeway check reports the same errors."
        ),
        define(
            .configurationNeedsRestart,
            "configuration-needs-restart",
            .warning,
            "the configuration has changes that need a restart",
            "`keys` names the changed keys that are not applied yet. All other changes are applied.",
            "Restart the workers when convenient: kubectl rollout restart."
        ),
    ]

    private static let traces: [LogKindDefinition] = [
        define(
            .tracesRefused,
            "traces-refused",
            .warning,
            "traces cannot be exported: the worker retries for a while, then drops them",
            "The collector at tracing.endpoint is unreachable, or refuses traces. Pushes do not wait for it.",
            """
            Read `error`, then check the collector, tracing.caFile and tracing.headersFile, and the network policy \
            (networkPolicy.extraEgress).
            """
        ),
        define(
            .tracesAccepted,
            "traces-accepted",
            .notice,
            "traces are exported again",
            "The collector accepts traces."
        ),
        define(
            .tracesDropped,
            "traces-dropped",
            .warning,
            "traces were dropped",
            """
            More traces were sampled than the collector accepted, or the worker stopped before all were sent. \
            `records` is the number of dropped traces.
            """,
            "Lower tracing.samplesPerMillion, or give the collector more capacity."
        ),
    ]
}
