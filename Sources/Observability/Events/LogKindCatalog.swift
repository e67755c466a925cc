import Logging

/// The definitions of all kinds of log lines.
package enum LogKindCatalog {
    /// Indexed by ``LogKind``'s raw value.
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
            "A thread or a client could not start, or failed for good. The process ends with code 70 and is restarted.",
            "Read `error`. If it happens again at once, the cause is the configuration or the machine."
        ),
        define(
            .lifetimeEndsInterrupted,
            "lifetime-ends-interrupted",
            .warning,
            "activities whose lifetime is over cannot be ended now",
            "Redis does not say which activities must end, or Kafka does not take the commands. Nothing is lost: it is tried again each second.",
            "Repair Redis or Kafka; see `error`. The user of Kafka must be allowed to write to the commands topic."
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
            "The activity's data in Redis is missing or damaged; `error` says which. The activity has left the timetable.",
            "Start the activity again with a command, if its user needs it. Look for the cause: a Redis that evicts keys, or another program "
                + "that writes keys which begin with `{causeway:lifetimes:`."
        ),
        define(
            .lifetimeStateLost,
            "lifetime-state-lost",
            .error,
            "an activity starts again with the state of its former start",
            "The activity's newest update in Redis is damaged. The worker no longer uses it.",
            "Send the newest state again with an update. Look for the cause: another program that writes keys which begin with "
                + "`{causeway:lifetimes:`."
        ),
        define(
            .lifetimeFormatUnknown,
            "lifetime-format-unknown",
            .error,
            "an activity whose lifetime is over is not started again, because only a newer version can read its data",
            "A newer version of Causeway wrote the activity's start or newest update in Redis, in a form or with a field that this version does "
                + "not know. A worker of that version could have started the activity until the start expired (`startSeconds`). None has come for "
                + "eight hours. The activity has left the timetable.",
            "Start the activity again with a command, if its user needs it. Upgrade the workers again, or set `afterLifetime` to `end` before a "
                + "rollback."
        ),
        define(
            .lifetimesUnknownApp,
            "lifetimes-unknown-app",
            .notice,
            "activities whose lifetime is over are left to workers that have their app",
            "The timetables in Redis have activities of `apps`, which this worker does not have, because deployments with different apps share "
                + "Redis, or because an app has left the configuration. Twelve hours after an activity should have ended, it leaves the timetable."
        ),
        define(
            .workerDraining,
            "worker-draining",
            .info,
            "draining",
            "The worker received a signal to stop, and begins nothing new."
        ),
        define(
            .drainTimeOver,
            "drain-time-over",
            .warning,
            "drain time is over",
            "Something did not respond before the partitions were given up. The next "
                + "owner reads the records again; Redis prevents a second push.",
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
            "A lane lost its connection. Its commands wait, unsent, until it is connected again.",
            "Check Redis at `servers`, the network policy and the credentials; `reason` has the error."
        ),
        define(
            .redisWarning,
            "redis-warning",
            .warning,
            "Redis",
            "Redis is configured in a way that endangers Causeway's guarantees.",
            "Read `warning`. The eviction policy must be noeviction: if an activity is evicted, Causeway no longer knows what it shows."
        ),
        define(
            .redisRefused,
            "redis-refused",
            .error,
            "Redis refused a call",
            "A key has a value that Causeway did not write. The command fails, with a result.",
            "Read `reason`. Another program writes keys with the same names: give Causeway a database or a Redis of its own."
        ),
        define(
            .redisError,
            "redis-error",
            .error,
            "Redis replies with an error",
            "A call was not carried out. It is repeated until it succeeds; no command is settled because of it.",
            "Read `reason`. OOM: give Redis more memory. NOPERM: give the user the permission. Any text that is not explained here: report it."
        ),
        define(
            .redisReplicasMissing,
            "redis-replicas-missing",
            .error,
            "Redis' replicas do not acknowledge writes",
            "Fewer than redis.replicas replicas have a lane's writes. Its registrations and held states wait 10 s, then continue without replicas.",
            "Bring the replicas back. A failover before that means that registrations and commands are read from Kafka again."
        ),
        define(
            .redisReplicasAvailableAgain,
            "redis-replicas-available-again",
            .notice,
            "Redis' replicas acknowledge again",
            "At least redis.replicas replicas acknowledge writes."
        ),
        define(
            .redisEmptied,
            "redis-emptied",
            .error,
            "Redis has lost all its data",
            "A primary has no data of partitions that this worker reads. They are read again, so that phones are served again.",
            "Find out why: a restart without persistence, FLUSHALL, or eviction. Phones may get a state again that they already show."
        ),
        define(
            .redisReplaced,
            "redis-replaced",
            .warning,
            "Redis was restarted or replaced",
            "A primary was restarted or replaced, or a worker stopped before it reached Redis. Writes may be missing, so their records are read again.",
            "Nothing, if the restart or failover was intended."
        ),
        define(
            .rereadingBegan,
            "rereading-began",
            .notice,
            "partitions are read again",
            "Redis has lost what their records wrote. No alert rings twice because of this, and nothing starts twice."
        ),
        define(
            .membersMissing,
            "members-missing",
            .warning,
            "audiences have missed members for ten minutes",
            "Redis lost its data, and some partitions of registrations have not been read again. Rounds continue without these members.",
            "Find the worker that reads the registrations, and check whether Redis and Kafka respond to it."
        ),
    ]

    private static let keys: [LogKindDefinition] = [
        define(
            .keyReadableByOthers,
            "key-readable-by-others",
            .warning,
            "the key file is readable by others: chmod o-r, or defaultMode 0440",
            "Everybody who can read the file can send pushes as you.",
            "Set defaultMode 0440 on the secret's volume, and fsGroup."
        ),
        define(
            .keyOffered,
            "key-offered",
            .notice,
            "a key file was replaced: one push tries the new key",
            "The new key replaces the old one if APNs accepts it. All other pushes use the old key until then."
        ),
        define(
            .keyLoaded,
            "key-loaded",
            .notice,
            "the key of the key file is now in use",
            "A key file was replaced, and APNs accepts the new key. Or the file of the key in use is there again."
        ),
        define(
            .keyRejected,
            "key-rejected",
            .error,
            "a new key file is refused; the previous key stays in use",
            "The file was replaced by one without a usable key.",
            "Read `error`, and write the complete file again."
        ),
        define(
            .sharedTokenSigned,
            "shared-token-signed",
            .info,
            "signed the fleet's provider token",
            "It was this worker's turn. The other workers read the token from Redis."
        ),
        define(
            .sharedTokensUnavailable,
            "shared-tokens-unavailable",
            .warning,
            "the fleet's provider token cannot be fetched from Redis: the last one is used until it expires",
            "Redis is away, or rejects the user.",
            "Repair Redis within an hour, before the last token expires; see `error`."
        ),
        define(
            .sharedTokensAvailableAgain,
            "shared-tokens-available-again",
            .notice,
            "the fleet's provider tokens are shared again",
            "Redis replies again."
        ),
        define(
            .sharedTokenUnreadable,
            "shared-token-unreadable",
            .error,
            "the fleet's provider token cannot be read",
            "Another key sealed the token. This worker signs its own token as well, and Apple may refuse so many tokens.",
            "Give all workers of the fleet the same apns.sharedTokenKeyFile."
        ),
        define(
            .sharedTokenNotSigned,
            "shared-token-not-signed",
            .error,
            "a provider token could not be signed or sealed",
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
            "the configuration was not reloaded: it has faults, and the previous one stays in use",
            "None of its values are used. A worker that starts with it now ends with code 78.",
            "Read `faults`; causeway check shows the same."
        ),
        define(
            .configurationNeedsRestart,
            "configuration-needs-restart",
            .warning,
            "the configuration has changes that need a restart",
            "All other changes are in use; `keys` names those that are not.",
            "Restart the workers at a good moment: kubectl rollout restart."
        ),
    ]

    private static let traces: [LogKindDefinition] = [
        define(
            .tracesRefused,
            "traces-refused",
            .warning,
            "traces cannot be exported: they are offered again for a while, then dropped",
            "The collector at tracing.endpoint is away, or refuses traces. Nothing else waits for it.",
            "Read `error`; check the collector, tracing.caFile and tracing.headersFile, and the network policy (networkPolicy.extraEgress)."
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
            "More were sampled than the collector accepted, or the worker ended before the last were sent; `records` is their number.",
            "Lower tracing.samplesPerMillion, or give the collector more capacity."
        ),
    ]
}
