import Logging

extension LogKindCatalog {
    static let redis: [LogKindDefinition] = [
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
}
