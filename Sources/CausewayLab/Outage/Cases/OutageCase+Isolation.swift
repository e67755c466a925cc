import CausewayConfiguration

extension OutageCase {
    /// The milliseconds that 99 of 100 pushes of a healthy app may take. The time is long, because the machine may have
    /// other load.
    private static let freshnessP99MillisecondsMax: Int64 = 2_500

    /// How long a record may wait until its offset is committed, if the worker has its default configuration. It is the
    /// sum of these times:
    ///
    /// - `deferAfterMilliseconds`: after this time, a worker defers a command.
    /// - `requestTimeoutMilliseconds`: a push that begins just before the deferral may wait so long for its response.
    /// - One second for the commit, and one second for the poll that measures the wait.
    private static let commitWaitMillisecondsMax: Int64 = {
        let defaults = WorkerConfiguration()
        return Int64(defaults.worker.deferAfterMilliseconds + defaults.apns.requestTimeoutMilliseconds) + 2_000
    }()

    /// Cases in which one app, device or token is disturbed and others must not be affected.
    static let isolationCases = [
        OutageCase(
            name: "black-holed-host",
            summary:
                "The host of one app does not respond for 20 s, not even to new connections; a healthy app shares its "
                + "partitions",
            apps: [
                OutageApp(name: "affected", environment: .production, activityCount: 60, durationMilliseconds: 20_000),
                OutageApp(name: "healthy", activityCount: 60, durationMilliseconds: 26_000),
            ],
            steps: [
                OutageStep(at: 4_000, .freeze(.simulator(.production))),
                OutageStep(at: 24_000, .thaw(.simulator(.production))),
            ],
            expectations: [
                .noOutcome("failed"), .invalidationCount(0),
                .freshnessP99(app: "healthy", milliseconds: freshnessP99MillisecondsMax),
                .committedWithin(milliseconds: commitWaitMillisecondsMax),
                .atMostOnePushPerActivity(app: "affected", sinceMilliseconds: 24_000),
            ]
        ),
        OutageCase(
            name: "device-out-of-starts",
            summary:
                """
                Twelve starts for one device that may have eight per hour, and a healthy app; a start expires after 30 \
                s instead of 600
                """,
            apps: [
                OutageApp(
                    name: "affected",
                    activityCount: 12,
                    pushStartedActivityCount: 12,
                    activitiesPerDevice: 12,
                    endEveryNthActivity: 0
                ),
                OutageApp(name: "healthy", activityCount: 60),
            ],
            workers: OutageWorkers(
                // These starts expire after 30 s. A worker defers a command only if the command is due again before it
                // expires, so the delay must be short.
                workerSettings: ["deferAfterMilliseconds": "3000", "deferredDelayMilliseconds": "5000"],
                policySettings: ["expiration": "{startSeconds: 30}"]
            ),
            ageLimits: AgeLimits(startAgeSecondsMax: 30),
            expectations: [
                .noOutcome("failed"), .freshnessP99(app: "healthy", milliseconds: freshnessP99MillisecondsMax),
                .committedWithin(milliseconds: 15_000),
            ]
        ),
        OutageCase(
            name: "token-retired",
            summary:
                """
                APNs responds with 410 to all tokens of an app. New tokens are registered 8 s later; the last updates \
                and ends come in between
                """,
            apps: [OutageApp(activityCount: 60)],
            steps: [
                OutageStep(at: 13_000, .rotateTokens(app: "match")), OutageStep(at: 21_000, .resumeRegistrations),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(60)]
        ),
    ]
}
