import Logging

/// The definitions of all kinds of log lines.
package enum LogKindCatalog {
    /// The definitions in the order of ``LogKind``'s raw values.
    package static let definitions: [LogKindDefinition] = {
        let all = [worker, lifetimes, kafka, redis, apns, channels, keys, configuration, traces].flatMap { $0 }
        let sorted = all.sorted { $0.kind.rawValue < $1.kind.rawValue }
        precondition(
            sorted.map(\.kind) == LogKind.allCases,
            "define each kind once in LogKindCatalog*.swift; missing: "
                + "\(Set(LogKind.allCases).subtracting(sorted.map(\.kind)))"
        )
        return sorted
    }()

    static func define(
        _ kind: LogKind,
        _ identifier: String,
        _ level: Logger.Level,
        message: String,
        meaning: String,
        action: String = ""
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
            message: "worker started",
            meaning: "The worker's threads run; the connections to Kafka, Redis and APNs may follow later."
        ),
        define(
            .workerStopped,
            "worker-stopped",
            .info,
            message: "worker stopped",
            meaning: "The worker has drained and left its group."
        ),
        define(
            .workerFailed,
            "worker-failed",
            .critical,
            message: "the worker cannot continue",
            meaning: """
                A thread or a client could not start, or failed permanently. The process exits with code 70, and \
                Kubernetes restarts it.
                """,
            action: "Read `error`. If it happens at each start, the cause is the configuration or the machine."
        ),
        define(
            .workerDraining,
            "worker-draining",
            .info,
            message: "draining",
            meaning: "The worker received a signal to stop. It finishes the work in progress and begins no other."
        ),
        define(
            .drainTimeOver,
            "drain-time-over",
            .warning,
            message: "the drain ended before its partitions were drained",
            meaning: """
                A second stop signal came (cause "a second stop signal"), or Redis, APNs or Kafka did not respond \
                before the worker had to give up its partitions (all other causes). The next owner reads the \
                unsettled records again. It may repeat a push whose outcome Redis does not know, and the alert may \
                ring again; it repeats no start.
                """,
            action: """
                After a second stop signal: nothing; one signal lets the worker finish. Otherwise, if it happens at \
                every stop, check the latency of Redis, APNs and Kafka, or raise worker.drainMilliseconds.
                """
        ),
        define(
            .httpFailed,
            "http-failed",
            .warning,
            message: "the HTTP endpoint refused a request",
            meaning: "A client's request was too large, too slow, or not HTTP.",
            action: "Nothing, unless the client is your own probe or scraper."
        ),
    ]

    private static let keys: [LogKindDefinition] = [
        define(
            .keyReadableByOthers,
            "key-readable-by-others",
            .warning,
            message: "the key file is readable by others: chmod o-r, or defaultMode 0440",
            meaning: "Every user who can read the file can send pushes to your apps.",
            action: "Set defaultMode 0440 on the secret's volume, and fsGroup."
        ),
        define(
            .keyOffered,
            "key-offered",
            .notice,
            message: "a key file was replaced: one push tries the new key",
            meaning: """
                If APNs accepts the new key, it replaces the old key. Until then, all other pushes use the old key.
                """
        ),
        define(
            .keyLoaded,
            "key-loaded",
            .notice,
            message: "the key of the key file is now in use",
            meaning: """
                A key file was replaced, and APNs accepts the new key. Or the file has the key in use again, after it \
                was missing or had another key.
                """
        ),
        define(
            .keyRejected,
            "key-rejected",
            .error,
            message: "a new key file cannot be used, or APNs refuses its key; the previous key stays in use",
            meaning: """
                The file on disk was replaced. `error` says what is wrong with the new file, or why APNs refuses its \
                key.
                """,
            action: "Read `error`, and write the complete file of the right key."
        ),
        define(
            .sharedTokenSigned,
            "shared-token-signed",
            .info,
            message: "signed a shared provider token",
            meaning: "One worker signs each shared token. The other workers read it from Redis."
        ),
        define(
            .sharedTokensUnavailable,
            "shared-tokens-unavailable",
            .warning,
            message: "the shared provider token cannot be read from Redis: the last one is used until it expires",
            meaning: "Redis is unreachable, or rejects the user.",
            action: """
                Read `error`, and repair Redis soon: the last token is used until it is 55 minutes old, for another 20 \
                to 55 minutes. Then each worker signs a token of its own.
                """
        ),
        define(
            .sharedTokensAvailableAgain,
            "shared-tokens-available-again",
            .notice,
            message: "the shared provider token can be read from Redis again",
            meaning: "Redis replies again."
        ),
        define(
            .sharedTokenUnreadable,
            "shared-token-unreadable",
            .error,
            message: "the shared provider token cannot be decrypted",
            meaning: """
                A worker with another apns.sharedTokenKeyFile encrypted the token. This worker signs its own token, \
                and Apple may refuse so many tokens.
                """,
            action: "Give all workers of the fleet the same apns.sharedTokenKeyFile."
        ),
        define(
            .sharedTokenNotSigned,
            "shared-token-not-signed",
            .error,
            message: "a provider token could not be signed or encrypted",
            meaning: "OpenSSL could not sign or encrypt with the key.",
            action: "Check the key file, then restart the worker."
        ),
    ]

    private static let configuration: [LogKindDefinition] = [
        define(
            .configurationReloaded,
            "configuration-reloaded",
            .notice,
            message: "configuration reloaded",
            meaning: """
                The file was read again, after SIGHUP, or because it or a file of shapes changed; `changed` names the \
                keys with new values, and `apps.<name>.shapes` if only the content of that file is new.
                """
        ),
        define(
            .configurationRejected,
            "configuration-rejected",
            .error,
            message: "the configuration was not reloaded: it has errors, and the previous one stays in use",
            meaning: """
                The worker uses no value of the new file. A worker that starts with this file exits with code 78. The \
                configuration or a file of shapes may also be missing.
                """,
            action: """
                Read `errors`, and correct the file. causeway check --config FILE --files, where the files are \
                mounted, reports the same errors. Without --files, missing files are no errors.
                """
        ),
        define(
            .configurationNeedsRestart,
            "configuration-needs-restart",
            .warning,
            message: "the configuration has changes that need a restart",
            meaning: "`keys` names the changed keys that are not applied yet. All other changes are applied.",
            action: "Restart the workers when convenient: kubectl rollout restart."
        ),
    ]

    private static let traces: [LogKindDefinition] = [
        define(
            .tracesRefused,
            "traces-refused",
            .warning,
            message: "traces cannot be exported: the worker retries for a while, then drops them",
            meaning: "The collector at tracing.endpoint is unreachable, or refuses traces. Pushes do not wait for it.",
            action: """
                Read `error`, then check the collector, tracing.caFile and tracing.headersFile, and the network policy \
                (networkPolicy.extraEgress).
                """
        ),
        define(
            .tracesAccepted,
            "traces-accepted",
            .notice,
            message: "traces are exported again",
            meaning: "The collector accepts traces."
        ),
        define(
            .tracesDropped,
            "traces-dropped",
            .warning,
            message: "traces were dropped",
            meaning: """
                More traces were sampled than the collector accepted, or the worker stopped before all were sent. \
                `records` is the number of dropped traces.
                """,
            action: "Lower tracing.samplesPerMillion, or give the collector more capacity."
        ),
    ]
}
