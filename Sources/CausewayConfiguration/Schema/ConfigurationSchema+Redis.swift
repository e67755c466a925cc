extension ConfigurationSchema {
    static let redisKeys: [SchemaKey<WorkerConfiguration>] = [
        .choice(
            "redis.mode",
            \.redis.mode,
            meaning: """
                The kind of servers. single: one server. sentinel: a primary and its replicas, monitored by Sentinels. \
                cluster: several primaries, each with a part of the keys.
                """
        ),
        .text(
            "redis.url",
            \.redis.url,
            .redisURL,
            meaning: """
                redis[s]://[[user]:password@]host[:port][/database]; rediss means TLS. User and password are \
                percent-encoded. A Unix socket: unix://[[user]:password@]/path[?db=database].
                Sentinel: the host is the primary's name at the Sentinels, redis://mymaster.
                Cluster: one or more of its servers, redis://a:7000,b:7000,c:7000; with TLS they need `tls-cluster yes`.
                """
        )
        .required(example: "redis://127.0.0.1:6379/0")
        .asSecret,
        .optionalText(
            "redis.sentinelURL",
            \.redis.sentinelURL,
            .sentinelURL,
            meaning: """
                Addresses of the Sentinels: redis[s]://[[user]:password@]host[:port][,host[:port]…]; without a port, \
                26379. User and password are for the Sentinels, not for Redis. Required with redis.mode sentinel.
                """
        )
        .asSecret,
        .optionalFile(
            "redis.sentinelPasswordFile",
            \.redis.sentinelPasswordFile,
            meaning: "File whose first line is the Sentinels' password; overrides a password in sentinelURL."
        ),
        .optionalFile(
            "redis.passwordFile",
            \.redis.passwordFile,
            meaning: "File whose first line is the password; overrides a password in the URL."
        ),
        .optionalFile(
            "redis.caFile",
            \.redis.caFile,
            meaning: "PEM file with the certificate authorities to check the server's certificate against."
        )
        .whenUnset("the system's"),
        .optionalFile(
            "redis.certificateFile",
            \.redis.certificateFile,
            meaning: """
                PEM file of the worker's client certificate. Set it together with keyFile, or set \
                neither.
                """
        ),
        .optionalFile("redis.keyFile", \.redis.keyFile, meaning: "PEM file of that certificate's key."),
        .integer(
            "redis.responseTimeoutMilliseconds",
            \.redis.responseTimeoutMilliseconds,
            10...60_000,
            meaning: "Time after which a call without a reply from Redis counts as failed."
        ),
        .integer(
            "redis.replicas",
            \.redis.replicas,
            0...16,
            meaning: """
                How many replicas must have a registration or a held state before it counts as stored. The worker uses \
                WAIT, so the Redis user needs the right +wait. Replicas must acknowledge the write within 10 % of \
                responseTimeoutMilliseconds. If too few do, the worker repeats such calls for 10 s. Then it continues \
                without the replicas, logs this, and counts an error for which an alert fires. To lose none of these \
                in a failover, set this to the number of replicas. With 0 the worker does not wait for replicas.
                """
        ),
        .integer(
            "redis.rereadMinutes",
            \.redis.rereadMinutes,
            1...720,
            meaning: """
                How many minutes of commands are read again after Redis has lost all data. An activity lasts at most \
                12 hours. If the last command of an activity is older than this, its newest state is sent with its \
                next command.
                """
        ),
    ]
}
