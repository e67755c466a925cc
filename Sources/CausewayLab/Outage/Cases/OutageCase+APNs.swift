extension OutageCase {
    static let apnsCases = [
        OutageCase(
            name: "apns-503",
            summary: "APNs responds with 503 to everything for 12 s, including the last updates and the ends",
            apps: [OutageApp(pushStartedActivityCount: 40)],
            steps: [
                OutageStep(at: 10_000, .setFaults(.sandbox, ["serviceUnavailableShare": 1])),
                OutageStep(at: 22_000, .clearFaults(.sandbox)),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "apns-503-starts",
            summary: "APNs responds with 503 to everything from the first start on, for 8 s",
            apps: [OutageApp(pushStartedActivityCount: 80)],
            steps: [
                OutageStep(at: 0, .setFaults(.sandbox, ["serviceUnavailableShare": 1])),
                OutageStep(at: 8_000, .clearFaults(.sandbox)),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "apns-refuses-streams",
            summary: "APNs refuses 30 % of all streams, for the whole case",
            apps: [OutageApp(pushStartedActivityCount: 40)],
            steps: [OutageStep(at: 0, .setFaults(.sandbox, ["refusedShare": 0.3]))],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "apns-no-answer",
            summary:
                "APNs responds to nothing and processes nothing for 12 s; the worker waits 2 s for a response "
                + "instead of 10. No starts: one whose response is lost stays unknown",
            steps: [
                OutageStep(at: 12_000, .setFaults(.sandbox, ["noResponseShare": 1])),
                OutageStep(at: 24_000, .clearFaults(.sandbox)),
            ],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        ),
        OutageCase(
            name: "wrong-key",
            summary: "The signing key is one that APNs does not know, and is replaced by the correct one after 12 s",
            apps: [OutageApp(pushStartedActivityCount: 40)],
            workers: OutageWorkers(beginsWithWrongKey: true),
            steps: [OutageStep(at: 12_000, .installValidKey)],
            // The commands wait for the right key, and after 10 s are deferred for 30 s. But the worker must read them
            // again as soon as APNs accepts the key, at about 12 s. Otherwise phones would get no state for about 40 s.
            expectations: [.noOutcome("failed"), .invalidationCount(0), .noSilenceLongerThan(milliseconds: 30_000)]
        ),
    ]
}
