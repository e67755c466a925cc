extension OutageCase {
    private static let season = [OutageApp(pushStartedActivities: 40)]
    private static let fleet = OutageWorkers(count: 3, lanes: 1)
    private static let promises: [OutageExpectation] = [.never("failed"), .invalidations(0)]
    /// Alerts that rang within this time before Redis lost data may ring again.
    private static let lastMilliseconds: Int64 = 5_000

    static let ofRedis = [
        OutageCase(
            name: "redis-frozen",
            summary: "Redis is frozen for 8 s, in which the last commands come",
            apps: season,
            steps: [OutageStep(at: 12_000, .freeze(.redis(0))), OutageStep(at: 20_000, .thaw(.redis(0)))],
            expectations: promises
        ),
        OutageCase(
            name: "redis-killed-and-empty",
            summary: "Redis is killed in mid-season and comes back empty after 2 s, with three workers",
            apps: season,
            workers: fleet,
            steps: [
                OutageStep(at: 8_000, .kill(.redis(0)), forgetting: lastMilliseconds),
                OutageStep(at: 10_000, .start(.redis(0))),
            ],
            expectations: promises
        ),
        OutageCase(
            name: "redis-flushed",
            summary: "FLUSHALL in mid-season, with three workers",
            apps: season,
            workers: fleet,
            steps: [OutageStep(at: 8_000, .flushRedis, forgetting: lastMilliseconds)],
            expectations: promises
        ),
        OutageCase(
            name: "redis-failover",
            summary:
                "The primary dies, and Sentinel promotes a replica that lacks the last 5 s, in which other tokens replaced all tokens "
                + "of an app; with three workers",
            apps: season,
            workers: fleet,
            redis: .sentinel,
            steps: [
                OutageStep(at: 5_000, .cutReplication), OutageStep(at: 6_000, .rotateTokens(app: "match")),
                OutageStep(at: 6_100, .releaseTokens),
                OutageStep(at: 10_000, .kill(.redis(0)), forgetting: lastMilliseconds),
            ],
            expectations: [.never("failed")]
        ),
        OutageCase(
            name: "redis-node-replaced",
            summary: "One of three servers of a cluster is killed and comes back empty after 3 s, with three workers",
            apps: season,
            workers: fleet,
            redis: .cluster(primaries: 3),
            steps: [
                OutageStep(at: 8_000, .kill(.redis(1)), forgetting: lastMilliseconds),
                OutageStep(at: 11_000, .start(.redis(1))),
            ],
            expectations: promises
        ),
    ]
}
