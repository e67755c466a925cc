import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// How long broadcasts wait after APNs has not accepted one. (R18)
@Suite struct BroadcastRetryTests {
    /// A newer state is a first attempt, so it waits neither for the back-off of the older one nor for the retry
    /// budget.
    @Test(arguments: [true, false])
    func `A newer state does not wait for the retry of an older one`(isRetryPermitted: Bool) throws {
        let harness = RoundHarness()
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        let channel = AudienceChannel(environment: .production, storage: .newest, identifier: identifier)
        harness.appendCommand(1, hasAlert: true, channel: channel)
        harness.performPendingWork()
        for _ in 0..<8 {
            #expect(harness.send().map(\.content) == [1])
            harness.respondToPushes(.retryLater)
            harness.advanceClock(milliseconds: 60_000)
        }
        if isRetryPermitted {
            #expect(harness.send().map(\.content) == [1])
            harness.respondToPushes(.retryLater)
        } else {
            let pool = PoolTarget(appIndex: 0, environment: .production)
            let push = harness.core.takeNextPush(
                pool,
                permitsRetry: false,
                pushesInFlightMax: 10,
                now: harness.moment
            )
            #expect(push == nil)
        }
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.send().isEmpty, "the older state waits for its retry")
        harness.appendCommand(2, channel: channel)
        let sent = harness.sendAndAcceptPushes()
        #expect(sent.map(\.content) == [2] && sent.map(\.alert) == [1])
        #expect(harness.committableOffset == 2 && harness.core.fanoutRecordCount == 0)
    }
}
