import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// A running core applies changed policies and retry pauses from the next command or retry on.
@Suite struct ReloadTests {
    private func makeSettings(_ names: String..., retryMillisecondsMax: Int64 = 300_000) -> ReloadableSettings {
        var settings = ReloadableSettings(appCount: RoundHarness.apps.count)
        settings.policies = names.map { Policy(name: $0) }
        settings.retryMillisecondsMax = retryMillisecondsMax
        return settings
    }

    @Test func `A command may have a policy that a reload has added`() {
        let harness = RoundHarness()
        harness.core.apply(makeSettings("default", "added"))
        harness.handOver(1, .update, policy: 1)
        harness.performPendingWork()
        let returned = harness.core.takeReturnedCommand()
        #expect(returned?.handoverResult == .fannedOut)
    }

    @Test func `A reload makes the longest retry pause shorter, and another reload makes it longer again`() {
        let harness = RoundHarness()
        harness.core.apply(makeSettings("default", retryMillisecondsMax: 150))
        #expect(harness.core.configuration.retryPauseMillisecondsMax == 150)
        let shortPauseMilliseconds = harness.core.chooseRetryPauseMilliseconds(failedAttemptCount: 20)
        #expect(shortPauseMilliseconds <= 150)
        harness.core.apply(makeSettings("default"))
        // The settings allow 300 s, but audiences pause for at most 60 s.
        #expect(harness.core.configuration.retryPauseMillisecondsMax == 60_000)
        let longPauseMilliseconds = harness.core.chooseRetryPauseMilliseconds(failedAttemptCount: 20)
        #expect(longPauseMilliseconds >= 30_000)
    }
}
