extension OutageCase {
    static let ofRedis = [
        OutageCase(
            name: "redis-frozen",
            summary: "Redis is frozen for 8 s, in which the last commands come",
            apps: [OutageApp(startedByPush: 40)],
            troubles: [Trouble(at: 12_000, .freeze(.redis(0))), Trouble(at: 20_000, .thaw(.redis(0)))],
            expectations: [.never("failed"), .invalidations(0)]
        ),
        OutageCase(
            name: "redis-killed-and-empty",
            summary: "Redis is killed in mid-season and comes back empty after 2 s",
            apps: [OutageApp(startedByPush: 40)],
            troubles: [
                Trouble(at: 8_000, .kill(.redis(0)), forgetting: 5_000), Trouble(at: 10_000, .start(.redis(0))),
            ],
            expectations: [.never("failed"), .invalidations(0)]
        ),
    ]
}
