import Logging

extension LogKindCatalog {
    static let redis: [LogKindDefinition] = [
        define(.redisReady, "redis-ready", .info, message: "Redis is ready", meaning: "A lane is connected to Redis."),
        define(
            .redisLost,
            "redis-lost",
            .warning,
            message: "the connection to Redis is lost",
            meaning: "A lane lost its connection. Its commands are not sent until it is connected again.",
            action: "Check Redis at `servers`, the network policy and the credentials; `reason` has the error."
        ),
        define(
            .redisWarning,
            "redis-warning",
            .warning,
            message: "Redis may evict keys, or its configuration cannot be checked",
            meaning: "maxmemory-policy is not noeviction, or the Redis user may not use CONFIG GET or INFO.",
            action: """
                Read `warning`. Set maxmemory-policy to noeviction: if Redis evicts an activity, Causeway no longer \
                knows what the phone shows. Allow the Redis user CONFIG GET and INFO.
                """
        ),
        define(
            .redisRefused,
            "redis-refused",
            .error,
            message: "Redis refused a call",
            meaning: """
                A key has a value that Causeway did not write. The command fails, with a result. But if only a held \
                command in the value cannot be read, this command or its alert is lost without a result.
                """,
            action: """
                Read `reason`. Another program writes keys with the same names: give Causeway a database or a Redis of \
                its own.
                """
        ),
        define(
            .redisError,
            "redis-error",
            .error,
            message: "Redis replies with an error",
            meaning: "A call failed. The worker repeats it until it succeeds; until then the command is not settled.",
            action: """
                Read `reason`. OOM: give Redis more memory. NOPERM: give the user the permission. Report any text that \
                is not explained here.
                """
        ),
        define(
            .redisReplicasMissing,
            "redis-replicas-missing",
            .error,
            message: "too few replicas of Redis acknowledge writes",
            meaning: """
                Fewer than redis.replicas replicas have a lane's writes. Its registrations and held states wait 10 s, \
                then continue without replicas.
                """,
            action: """
                Repair the replicas. If a failover happens before that, workers read registrations and commands from \
                Kafka again.
                """
        ),
        define(
            .redisReplicasAvailableAgain,
            "redis-replicas-available-again",
            .notice,
            message: "enough replicas of Redis acknowledge writes again",
            meaning: "At least redis.replicas replicas acknowledge writes."
        ),
        define(
            .redisEmptied,
            "redis-emptied",
            .error,
            message: "Redis has lost all its data",
            meaning: """
                A primary has no data of partitions that this worker reads. The worker reads these partitions again \
                and restores the data.
                """,
            action: """
                Find out why: a restart without persistence, FLUSHALL, or eviction. Phones may get the state that they \
                already show once more.
                """
        ),
        define(
            .redisReplaced,
            "redis-replaced",
            .warning,
            message: "Redis was restarted or replaced",
            meaning: """
                A primary was restarted or replaced, or a worker stopped before it reached Redis. Writes may be \
                missing, so their records are read again.
                """,
            action: "Nothing, if the restart or failover was intended."
        ),
        define(
            .rereadingBegan,
            "rereading-began",
            .notice,
            message: "partitions are read again",
            meaning: """
                Redis has lost data of the partitions' records. Reading them again repeats no alert and no start, with \
                rare exceptions (known issue K18).
                """
        ),
        define(
            .membersMissing,
            "members-missing",
            .warning,
            message: "members of audiences have been missing in Redis for ten minutes",
            meaning: """
                Redis lost its data, and some partitions of the registrations topic have not been read again. Rounds \
                continue without these members.
                """,
            action: "Find the worker that reads the registrations, and check whether Redis and Kafka respond to it."
        ),
        define(
            .clockWrong,
            "clock-wrong",
            .warning,
            message: "the clocks of this machine and of Redis differ by more than a minute",
            meaning: """
                Redis' clock is `redisAheadSeconds` ahead; if this is negative, it is behind. The worker adds \
                `correctionSeconds` to its own clock. It does not follow Redis' clock if the difference is more than \
                30 minutes, or if Redis' clock was set back while the worker was running.
                """,
            action: """
                Synchronize the clock that is wrong with NTP: this machine's, or Redis' if all workers write this \
                line. While Redis' clock is wrong, workers that start use its time.
                """
        ),
        define(
            .clockRightAgain,
            "clock-right-again",
            .notice,
            message: "the clocks of this machine and of Redis agree again",
            meaning: "They differ by at most a minute."
        ),
    ]
}
