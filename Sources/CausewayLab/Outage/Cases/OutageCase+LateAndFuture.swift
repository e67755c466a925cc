extension OutageCase {
    /// Cases with commands that are read late, and with commands whose timestamp is in the future.
    static let lateAndFutureCases = [
        OutageCase(
            name: "thirty-hours-old",
            summary: "A new group reads starts, updates and ends that are 30 hours old, with an empty Redis",
            apps: [
                OutageApp(pushStartedActivityCount: 40, durationMilliseconds: 10_000, timestampAgeSeconds: 30 * 3_600)
            ],
            workers: OutageWorkers(areStartedBeforeCommands: false),
            steps: [OutageStep(at: 11_000, .start(.worker(0)))],
            expectations: [.noOutcome("failed"), .noPush(app: "match")],
            recoveryMillisecondsMax: 20_000
        ),
        OutageCase(
            name: "seven-minutes-old",
            summary: "A backlog whose timestamps are 7 minutes old: its states are shown, its alerts do not ring",
            apps: [OutageApp(pushStartedActivityCount: 40, durationMilliseconds: 10_000, timestampAgeSeconds: 420)],
            workers: OutageWorkers(areStartedBeforeCommands: false),
            steps: [OutageStep(at: 11_000, .start(.worker(0)))],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "start-and-end-in-a-backlog",
            summary:
                """
                Starts and ends of the same activities are read together: no phone gets the alert of a start for a \
                finished match
                """,
            apps: [
                OutageApp(
                    activityCount: 60,
                    pushStartedActivityCount: 60,
                    durationMilliseconds: 8_000,
                    endEveryNthActivity: 1
                )
            ],
            workers: OutageWorkers(areStartedBeforeCommands: false),
            steps: [OutageStep(at: 9_000, .start(.worker(0)))],
            expectations: [.noOutcome("failed"), .noPush(app: "match")],
            recoveryMillisecondsMax: 20_000
        ),
        OutageCase(
            name: "year-2100",
            summary: "One command of each activity has a timestamp in the year 2100, and correct commands follow",
            apps: [OutageApp(farFutureTimestampCommandNumber: 3)],
            expectations: [.noOutcome("failed"), .outcome("invalid", count: 100), .invalidationCount(0)]
        ),
    ]
}
