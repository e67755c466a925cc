extension OutageCase {
    static let workerCases = [
        OutageCase(
            name: "rolling-restart",
            summary: "Three workers are restarted by SIGTERM, one after the other, nine times, under load",
            apps: [
                OutageApp(
                    activityCount: 200,
                    pushStartedActivityCount: 40,
                    commandIntervalMilliseconds: 800,
                    durationMilliseconds: 22_000,
                    alertEveryNthCommand: 3
                )
            ],
            workers: OutageWorkers(count: 3, laneCount: 1),
            steps: (0..<9)
                .flatMap { number in
                    let milliseconds = 3_000 + 2_000 * Int64(number)
                    return [
                        OutageStep(at: milliseconds, .stop(.worker(number))),
                        OutageStep(at: milliseconds + 500, .start(.worker(number))),
                    ]
                },
            expectations: [.noOutcome("failed"), .invalidationCount(0), .oneFinalResultPerCommand]
        ),
        OutageCase(
            name: "worker-killed",
            summary: "One of three workers is killed; the others serve its activities, with the default session",
            apps: [OutageApp(pushStartedActivityCount: 40, durationMilliseconds: 24_000)],
            workers: OutageWorkers(count: 3, laneCount: 1, consumerProperties: [:]),
            steps: [OutageStep(at: 6_000, .kill(.worker(0)), alertRepeatWindowMilliseconds: 1_000)],
            expectations: [.noOutcome("failed"), .invalidationCount(0), .noSilenceLongerThan(milliseconds: 12_000)],
            recoveryMillisecondsMax: 60_000
        ),
        OutageCase(
            name: "stop-with-redis-frozen",
            summary:
                "SIGTERM while Redis is frozen, with a drain of 4 s: the worker stops, and the next worker continues",
            apps: [OutageApp(pushStartedActivityCount: 40)],
            workers: OutageWorkers(drainMilliseconds: 4_000),
            steps: [
                OutageStep(at: 8_000, .freeze(.redis(0))),
                OutageStep(at: 9_000, .stop(.worker(0)), alertRepeatWindowMilliseconds: 2_000),
                OutageStep(at: 9_500, .start(.worker(0))), OutageStep(at: 19_000, .thaw(.redis(0))),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "stop-with-apns-frozen",
            summary:
                """
                SIGTERM while APNs does not respond, with a drain of 4 s: the worker stops, and the next worker \
                continues
                """,
            workers: OutageWorkers(drainMilliseconds: 4_000),
            steps: [
                OutageStep(at: 8_000, .freeze(.simulator(.sandbox))), OutageStep(at: 9_000, .stop(.worker(0))),
                OutageStep(at: 9_500, .start(.worker(0))), OutageStep(at: 19_000, .thaw(.simulator(.sandbox))),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "stop-with-kafka-frozen",
            summary:
                """
                SIGTERM while the broker is frozen, with a drain of 4 s: the worker stops, and the next worker \
                continues
                """,
            apps: [OutageApp(pushStartedActivityCount: 40)],
            workers: OutageWorkers(drainMilliseconds: 4_000),
            steps: [
                OutageStep(at: 8_000, .freeze(.broker)),
                OutageStep(at: 9_000, .stop(.worker(0)), alertRepeatWindowMilliseconds: 2_000),
                OutageStep(at: 9_500, .start(.worker(0))), OutageStep(at: 19_000, .thaw(.broker)),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
    ]
}
