extension OutageCase {
    /// Cases with activities whose policy limits their lifetime.
    static let lifetimeCases = [
        OutageCase(
            name: "lifetimes",
            summary:
                """
                APNs responds with 503 to everything while lifetimes of 30 s end, and the worker is killed meanwhile: \
                each activity ends once, and each that was started by push is started again once
                """,
            apps: [OutageApp(pushStartedActivityCount: 40, endEveryNthActivity: 0)],
            workers: OutageWorkers(
                workerSettings: ["deferAfterMilliseconds": "1000", "deferredDelayMilliseconds": "3000"],
                policySettings: ["lifetimeSeconds": "30", "afterLifetime": "restart"]
            ),
            steps: [
                OutageStep(at: 12_000, .setFaults(.sandbox, ["serviceUnavailableShare": 1])),
                OutageStep(at: 34_000, .kill(.worker(0))), OutageStep(at: 34_500, .start(.worker(0))),
                OutageStep(at: 40_000, .clearFaults(.sandbox)),
            ],
            expectations: [.noOutcome("failed"), .noOutcome("invalid"), .invalidationCount(0)],
            // The case must end while the restarted activities still live, because the checker expects them on the
            // phones.
            recoveryMillisecondsMax: 24_000
        )
    ]
}
