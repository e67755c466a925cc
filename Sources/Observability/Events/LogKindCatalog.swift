import Logging

/// The definitions of all kinds of log lines.
package enum LogKindCatalog {
    /// The definitions in the order of ``LogKind``'s raw values.
    package static let definitions: [LogKindDefinition] = {
        let all = worker + kafka + redis + apns + channels + keys + configuration + traces
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
            .lifetimeEndsInterrupted,
            "lifetime-ends-interrupted",
            .warning,
            "activities whose lifetime is over cannot be ended now",
            """
            Redis does not reply or replies with an error, or Kafka does not accept the commands that end activities. \
            Nothing is lost: the worker tries again each second.
            """,
            "Read `error`, and repair Redis or Kafka. The Kafka user must be allowed to write to the commands topic."
        ),
        define(
            .lifetimeEndsResumed,
            "lifetime-ends-resumed",
            .notice,
            "activities whose lifetime is over are ended again",
            "Redis and Kafka respond again."
        ),
        define(
            .lifetimeNotEnded,
            "lifetime-not-ended",
            .error,
            "an activity whose lifetime is over is not ended or started again",
            """
            The activity's data in Redis is missing or damaged; `error` says which. The worker has removed the \
            activity from the timetable in Redis.
            """,
            """
            Start the activity again with a command, if its user needs it. Find the cause: Redis evicts keys, or \
            another program writes keys that begin with `{causeway:lifetimes:`.
            """
        ),
        define(
            .lifetimeStateLost,
            "lifetime-state-lost",
            .error,
            "an activity is started again with the state of its earlier start",
            "The activity's newest update in Redis is damaged, so the worker does not use it.",
            "Send the newest state again with an update. Find the cause: another program writes keys that begin with "
                + "`{causeway:lifetimes:`."
        ),
        define(
            .lifetimeFormatUnknown,
            "lifetime-format-unknown",
            .error,
            "an activity whose lifetime is over is not started again, because only a newer version can read its data",
            """
            A newer version of Causeway wrote the activity's start or newest update in Redis, in a form or with a \
            field that this version does not know. A worker of that version could have started the activity until the \
            start expired (`startSeconds`). No such worker has run for eight hours. The worker has removed the \
            activity from the timetable in Redis.
            """,
            """
            Start the activity again with a command, if its user needs it. Upgrade the workers again, or set \
            `afterLifetime` to `end` before a rollback.
            """
        ),
        define(
            .lifetimesUnknownApp,
            "lifetimes-unknown-app",
            .notice,
            "activities whose lifetime is over are left to workers that have their app",
            """
            The timetables in Redis have activities of `apps`, which are not in this worker's configuration. Either \
            deployments with different apps share Redis, or an app was removed from the configuration. Twelve hours \
            after an activity should have ended, a worker removes it from the timetable.
            """
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

    private static let redis: [LogKindDefinition] = [
        define(.redisReady, "redis-ready", .info, "Redis is ready", "A lane is connected to Redis."),
        define(
            .redisLost,
            "redis-lost",
            .warning,
            "the connection to Redis is lost",
            "A lane lost its connection. Its commands are not sent until it is connected again.",
            "Check Redis at `servers`, the network policy and the credentials; `reason` has the error."
        ),
        define(
            .redisWarning,
            "redis-warning",
            .warning,
            "Redis may evict keys, or its configuration cannot be checked",
            "maxmemory-policy is not noeviction, or the Redis user may not use CONFIG GET or INFO.",
            """
            Read `warning`. Set maxmemory-policy to noeviction: if Redis evicts an activity, Causeway no longer knows \
            what the phone shows. Allow the Redis user CONFIG GET and INFO.
            """
        ),
        define(
            .redisRefused,
            "redis-refused",
            .error,
            "Redis refused a call",
            """
            A key has a value that Causeway did not write. The command fails, with a result. But if only a held command \
            in the value cannot be read, this command or its alert is lost without a result.
            """,
            """
            Read `reason`. Another program writes keys with the same names: give Causeway a database or a Redis of its \
            own.
            """
        ),
        define(
            .redisError,
            "redis-error",
            .error,
            "Redis replies with an error",
            "A call failed. The worker repeats it until it succeeds; until then the command is not settled.",
            """
            Read `reason`. OOM: give Redis more memory. NOPERM: give the user the permission. Report any text that is \
            not explained here.
            """
        ),
        define(
            .redisReplicasMissing,
            "redis-replicas-missing",
            .error,
            "too few replicas of Redis acknowledge writes",
            """
            Fewer than redis.replicas replicas have a lane's writes. Its registrations and held states wait 10 s, then \
            continue without replicas.
            """,
            """
            Repair the replicas. If a failover happens before that, workers read registrations and commands from Kafka \
            again.
            """
        ),
        define(
            .redisReplicasAvailableAgain,
            "redis-replicas-available-again",
            .notice,
            "enough replicas of Redis acknowledge writes again",
            "At least redis.replicas replicas acknowledge writes."
        ),
        define(
            .redisEmptied,
            "redis-emptied",
            .error,
            "Redis has lost all its data",
            """
            A primary has no data of partitions that this worker reads. The worker reads these partitions again and \
            restores the data.
            """,
            """
            Find out why: a restart without persistence, FLUSHALL, or eviction. Phones may get the state that they \
            already show once more.
            """
        ),
        define(
            .redisReplaced,
            "redis-replaced",
            .warning,
            "Redis was restarted or replaced",
            """
            A primary was restarted or replaced, or a worker stopped before it reached Redis. Writes may be missing, \
            so their records are read again.
            """,
            "Nothing, if the restart or failover was intended."
        ),
        define(
            .rereadingBegan,
            "rereading-began",
            .notice,
            "partitions are read again",
            "Redis has lost data of the partitions' records. Reading them again repeats no alert and no start."
        ),
        define(
            .membersMissing,
            "members-missing",
            .warning,
            "members of audiences have been missing in Redis for ten minutes",
            """
            Redis lost its data, and some partitions of the registrations topic have not been read again. Rounds \
            continue without these members.
            """,
            "Find the worker that reads the registrations, and check whether Redis and Kafka respond to it."
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
