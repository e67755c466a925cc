extension OutageCase {
    private static let appsWithPushStarts = [OutageApp(pushStartedActivityCount: 40)]
    private static let threeWorkers = OutageWorkers(count: 3, laneCount: 1)
    private static let noFailuresOrInvalidations: [OutageExpectation] = [.noOutcome("failed"), .invalidationCount(0)]
    /// An alert may ring again if it rang at most this long before Redis lost data.
    private static let alertRepeatWindowMilliseconds: Int64 = 5_000

    static let redisCases = [
        OutageCase(
            name: "redis-frozen",
            summary: "Redis is frozen for 8 s, while the last commands arrive",
            apps: appsWithPushStarts,
            steps: [OutageStep(at: 12_000, .freeze(.redis(0))), OutageStep(at: 20_000, .thaw(.redis(0)))],
            expectations: noFailuresOrInvalidations
        ),
        OutageCase(
            name: "redis-killed-and-empty",
            summary: "Redis is killed in the middle of the season and starts empty after 2 s, with three workers",
            apps: appsWithPushStarts,
            workers: threeWorkers,
            steps: [
                OutageStep(at: 8_000, .kill(.redis(0)), alertRepeatWindowMilliseconds: alertRepeatWindowMilliseconds),
                OutageStep(at: 10_000, .start(.redis(0))),
            ],
            expectations: noFailuresOrInvalidations
        ),
        OutageCase(
            name: "redis-flushed",
            summary: "FLUSHALL in the middle of the season, with three workers",
            apps: appsWithPushStarts,
            workers: threeWorkers,
            steps: [OutageStep(at: 8_000, .wipeRedis, alertRepeatWindowMilliseconds: alertRepeatWindowMilliseconds)],
            expectations: noFailuresOrInvalidations
        ),
        OutageCase(
            name: "redis-failover",
            summary:
                """
                The primary is killed, and Sentinel promotes a replica that lacks the last 5 s, in which other tokens \
                replaced all tokens of an app; with three workers
                """,
            apps: appsWithPushStarts,
            workers: threeWorkers,
            redis: .sentinel,
            steps: [
                OutageStep(at: 5_000, .cutReplication), OutageStep(at: 6_000, .rotateTokens(app: "match")),
                OutageStep(at: 6_100, .resumeRegistrations),
                OutageStep(at: 10_000, .kill(.redis(0)), alertRepeatWindowMilliseconds: alertRepeatWindowMilliseconds),
            ],
            expectations: [.noOutcome("failed")]
        ),
        OutageCase(
            name: "redis-node-replaced",
            summary: "One of three servers of a cluster is killed and starts empty after 3 s, with three workers",
            apps: appsWithPushStarts,
            workers: threeWorkers,
            redis: .cluster(primaryCount: 3),
            steps: [
                OutageStep(at: 8_000, .kill(.redis(1)), alertRepeatWindowMilliseconds: alertRepeatWindowMilliseconds),
                OutageStep(at: 11_000, .start(.redis(1))),
            ],
            expectations: noFailuresOrInvalidations
        ),
    ]
}
