extension OutageCase {
    static let kafkaCases = [
        OutageCase(
            name: "kafka-frozen",
            summary: "The broker is frozen for 8 s, longer than a session, which is 6 s instead of the default",
            apps: [OutageApp(pushStartedActivityCount: 40)],
            steps: [OutageStep(at: 6_000, .freeze(.broker)), OutageStep(at: 14_000, .thaw(.broker))],
            expectations: [.noOutcome("failed"), .invalidationCount(0)]
        )
    ]
}
