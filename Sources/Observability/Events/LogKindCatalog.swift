import Logging

/// All kinds of log lines.
package enum LogKindCatalog {
    /// Indexed by ``LogKind``'s raw value.
    package static let definitions: [LogKindDefinition] = {
        let all = worker + kafka + redis + apns + channels + keys + configuration + traces
        let sorted = all.sorted { $0.kind.rawValue < $1.kind.rawValue }
        precondition(sorted.map(\.kind) == LogKind.allCases, "each kind is defined once")
        return sorted
    }()

    static func line(
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
        line(
            .workerStarted,
            "worker-started",
            .info,
            "worker started",
            "Its threads run; Kafka, Redis and APNs may come later."
        ),
        line(.workerStopped, "worker-stopped", .info, "worker stopped", "It has drained and left its group."),
        line(
            .workerFailed,
            "worker-failed",
            .critical,
            "the worker cannot go on",
            "A thread or a client could not start, or broke for good; the process ends with 70 and is restarted.",
            "Read `error`. If it comes again at once, it is the configuration or the machine."
        ),
        line(.workerDraining, "worker-draining", .info, "draining", "A signal to stop came: nothing new is begun."),
        line(
            .drainTimeOver,
            "drain-time-over",
            .warning,
            "drain time is over",
            "Something did not answer before the partitions were given up; the next owner reads it again, and Redis keeps it from "
                + "being sent twice.",
            "If it comes with every stop, look at Redis', APNs' and Kafka's latency, or raise worker.drainMilliseconds."
        ),
        line(
            .httpFailed,
            "http-failed",
            .warning,
            "the HTTP endpoint refused a request",
            "Somebody asked for too much, too slowly, or not in HTTP.",
            "Nothing, unless it is your own probe or scraper."
        ),
    ]

    private static let redis: [LogKindDefinition] = [
        line(.redisReady, "redis-ready", .info, "Redis is ready", "A lane has its connection."),
        line(
            .redisLost,
            "redis-lost",
            .warning,
            "Redis is lost",
            "A lane's connection ended; its commands wait, unsent, until another is made.",
            "Check Redis, the network policy and the credentials; `reason` says what was seen."
        ),
        line(
            .redisWarning,
            "redis-warning",
            .warning,
            "Redis",
            "Redis is set up in a way that endangers what Causeway promises.",
            "Read `warning`. Eviction must be noeviction: an evicted activity forgets what it has shown."
        ),
        line(
            .redisRefused,
            "redis-refused",
            .error,
            "Redis refused a call",
            "What Redis holds under the key is not what Causeway writes; the command fails, with a result.",
            "Read `reason`. Another program writes keys of the same names: give Causeway a database, or a Redis, of its own."
        ),
        line(
            .redisError,
            "redis-error",
            .error,
            "Redis answers with an error",
            "A call was not carried out. It is made again until it is; nothing is concluded from it.",
            "Read `reason`. OOM: give Redis memory. NOPERM: the user's rights. A text that is not explained here: report it."
        ),
        line(
            .redisReplicasMissing,
            "redis-replicas-missing",
            .error,
            "Redis' replicas do not acknowledge",
            "Fewer than redis.replicas have what a lane wrote. For 10 s its registrations and held states wait, then they go on without.",
            "Bring the replicas back. Until then a failover would have registrations and commands read once more from Kafka."
        ),
        line(
            .redisReplicasBack,
            "redis-replicas-back",
            .notice,
            "Redis' replicas acknowledge again",
            "As many as redis.replicas do."
        ),
        line(
            .redisEmptied,
            "redis-emptied",
            .error,
            "Redis has lost everything",
            "A primary knows nothing of partitions that this worker reads: they are read once more, so that phones are served again.",
            "Find out why: a restart without persistence, FLUSHALL, eviction. Phones may be told once more what they show."
        ),
        line(
            .redisReplaced,
            "redis-replaced",
            .warning,
            "Redis is another process",
            "A primary was restarted, or a replica took its place. What was written last may be missing, so it is read once more.",
            "Nothing, if it was meant."
        ),
        line(
            .rereadingBegan,
            "rereading-began",
            .notice,
            "Partitions are read once more",
            "What they wrote to Redis is missing. No alert rings twice by it, and nothing starts twice."
        ),
        line(
            .membersMissing,
            "members-missing",
            .warning,
            "Audiences miss members for ten minutes",
            "Redis lost its data, and some partitions of registrations are still not read again. Rounds go on without their members.",
            "See which worker reads the registrations, and whether Redis and Kafka answer."
        ),
    ]

    private static let apns: [LogKindDefinition] = [
        line(.apnsConnected, "apns-connected", .info, "APNs connection is up", "TLS and HTTP/2 stand."),
        line(
            .apnsAuthenticated,
            "apns-authenticated",
            .info,
            "APNs connection is authenticated",
            "APNs accepted the provider token and lets pushes go side by side."
        ),
        line(
            .apnsStreamLimit,
            "apns-stream-limit",
            .debug,
            "APNs changed its stream limit",
            "It allows more or fewer pushes at once."
        ),
        line(
            .apnsGoAway,
            "apns-goaway",
            .notice,
            "APNs sent GOAWAY",
            "APNs ends a connection in order; another is made, and no push is lost by it.",
            "Read `reason`, if there is one: Apple says there what it dislikes."
        ),
        line(
            .apnsRetiring,
            "apns-retiring",
            .info,
            "APNs connection takes no more pushes",
            "What it has under way is awaited."
        ),
        line(
            .apnsClosed,
            "apns-closed",
            .warning,
            "APNs connection has ended",
            "Not in order: it broke, or could not be made. It is tried again, less and less often.",
            "Read `cause` and `detail`. connectFailed for all: egress to port 443 or 2197, a proxy in between, or DNS."
        ),
        line(
            .apnsUnresolved,
            "apns-unresolved",
            .warning,
            "APNs host has no address",
            "DNS does not answer for Apple's name.",
            "Check the cluster's DNS and the network policy's rule for it."
        ),
        line(
            .apnsRoomAwaited,
            "apns-room-awaited",
            .notice,
            "No further APNs connection: the process has as many as it may",
            "The pool wants one more, and the process's limit, of all or for each address, is reached. It opens one when there is room.",
            "Pushes go on over the connections that there are. If they wait for long, run more workers."
        ),
        line(
            .apnsBreakerOpen,
            "apns-breaker-open",
            .critical,
            "APNs refuses too much: only probes are sent, and no token is retired",
            "What is sent now cannot succeed. Pushes wait; newer states replace them.",
            "Read `cause`. availability: Apple's status page. deviceTokens: tokens of the other environment or of another bundle. "
                + "providerToken: key id, team id, or a key of the other environment."
        ),
        line(
            .apnsBreakerClosed,
            "apns-breaker-closed",
            .notice,
            "APNs accepts again",
            "A probe succeeded; pushes go on."
        ),
        line(.apnsDrained, "apns-drained", .debug, "APNs pool is drained", "Every push was answered."),
        line(
            .providerTokenTrouble,
            "provider-token-trouble",
            .critical,
            "APNs refuses the provider token",
            "The key, its id or its team is wrong, the clock is, or too many tokens are signed for the team.",
            "Read `reason`. Compare teamId and keyId with Apple's developer site; check the machine's clock."
        ),
    ]

    private static let keys: [LogKindDefinition] = [
        line(
            .keyReadableByOthers,
            "key-readable-by-others",
            .warning,
            "the key file is readable by others: chmod o-r, or defaultMode 0440",
            "Anyone who can read the file can push as you.",
            "Set defaultMode 0440 on the secret's volume, and fsGroup."
        ),
        line(
            .keyOffered,
            "key-offered",
            .notice,
            "a key file was replaced: one push tries the new key",
            "It takes the old one's place if APNs accepts it; every other push goes with the old one until then."
        ),
        line(
            .keyLoaded,
            "key-loaded",
            .notice,
            "APNs accepts the new key, which is now in use",
            "A key file changed, and the new one is good."
        ),
        line(
            .keyRejected,
            "key-rejected",
            .error,
            "a new key file is refused; the one before it stays in use",
            "The file changed into something that is no usable key.",
            "Read `error`, and write the file again, whole."
        ),
        line(
            .fleetTokenSigned,
            "fleet-token-signed",
            .info,
            "signed the fleet's provider token",
            "It was this worker's turn; the others take the token from Redis."
        ),
        line(
            .fleetTokensAway,
            "fleet-tokens-away",
            .warning,
            "the fleet's provider token cannot be fetched from Redis: the last one is used to its end",
            "Redis is away, or refuses the user.",
            "Repair Redis within the hour that a token lives; see `error`."
        ),
        line(
            .fleetTokensBack,
            "fleet-tokens-back",
            .notice,
            "the fleet's provider tokens are shared again",
            "Redis answers again."
        ),
        line(
            .fleetTokenUnreadable,
            "fleet-token-unreadable",
            .error,
            "the fleet's provider token cannot be read",
            "It was written with another key: this worker signs its own beside it, which Apple may refuse as too many.",
            "Give all workers of the fleet the same apns.sharedTokenKeyFile."
        ),
        line(
            .fleetTokenNotSigned,
            "fleet-token-not-signed",
            .error,
            "a provider token could not be signed or sealed",
            "OpenSSL refused the key.",
            "Check the key file; restart the worker."
        ),
    ]

    private static let configuration: [LogKindDefinition] = [
        line(
            .configurationReloaded,
            "configuration-reloaded",
            .notice,
            "configuration reloaded",
            "The file was read again, after SIGHUP or a change of it; `changed` names the keys that were taken."
        ),
        line(
            .configurationRejected,
            "configuration-rejected",
            .error,
            "the configuration was not reloaded: it is wrong, and the one before it stays in use",
            "Nothing of it was taken. A worker that starts now does not run: it ends with 78.",
            "Read `faults`; causeway check says the same."
        ),
        line(
            .configurationNeedsRestart,
            "configuration-needs-restart",
            .warning,
            "the configuration has changes that count from the next start only",
            "The other changes, if there are any, were taken; `keys` names those that were not.",
            "Restart the workers when it suits: kubectl rollout restart."
        ),
    ]

    private static let traces: [LogKindDefinition] = [
        line(
            .tracesRefused,
            "traces-refused",
            .warning,
            "traces cannot be exported: they are offered again for a while, then dropped",
            "The collector at tracing.endpoint is away, or refuses them. Nothing else waits for it.",
            "Read `error`; check the collector, tracing.caFile and tracing.headersFile, and the network policy (networkPolicy.extraEgress)."
        ),
        line(.tracesTaken, "traces-taken", .notice, "traces are exported again", "The collector takes them."),
        line(
            .tracesDropped,
            "traces-dropped",
            .warning,
            "traces were dropped",
            "More were sampled than the collector took, or the worker ended before it took them; `records` says how many.",
            "Lower tracing.samplesPerMillion, or give the collector more room."
        ),
    ]
}
