import LiveActivity
import Testing

@testable import CausewayLab

@Suite("The checker of an outage")
struct OutageCheckerTests {
    /// The age of a command whose timestamp is 63 years in the future.
    private static let futureAgeSeconds: Int64 = -2_000_000_000

    /// Returns a correct history: a start, three updates and an end. The start and the second update ring.
    private func correctHistory() -> TestHistory {
        var history = TestHistory()
        history.addCommand(1, .start, at: 0, hasAlert: true)
        history.addCommand(2, at: 2_000)
        history.addCommand(3, at: 4_000, hasAlert: true)
        history.addCommand(4, at: 6_000)
        history.addCommand(5, .end, at: 8_000)
        history.addPush(1, at: 50, alert: 1, .started)
        history.addPush(2, at: 2_100)
        history.addPush(3, at: 4_400, alert: 3)
        history.addPush(4, at: 6_100)
        history.addPush(5, at: 8_100, .ended)
        history.setScreen(5, isFinished: true)
        return history
    }

    private func findingCounts(_ findings: OutageFindings) -> [Int] {
        [findings.losses.count, findings.oldPushes.count, findings.repeats.count, findings.permittedAlertRepeats.count]
    }

    @Test func `A correct history has no fault`() {
        let findings = correctHistory().findings()
        #expect(findings.arePromisesKept && findingCounts(findings) == [0, 0, 0, 0])
        #expect(findings.longestSilenceMilliseconds == 400)
        #expect(findings.freshnessP99Milliseconds(of: "match") == 400)
    }

    @Test func `An empty history has no fault`() {
        #expect(TestHistory().findings().arePromisesKept)
    }

    // MARK: - States and alerts that were lost

    @Test func `A phone with an older state is a loss`() {
        var history = TestHistory()
        history.addCommand(1, at: 0)
        history.addCommand(2, at: 2_000)
        history.addPush(1, at: 100)
        history.setScreen(1)
        let findings = history.findings()
        #expect(findings.losses == ["a: shows 1, not 2"])
        #expect(findings.longestSilenceMilliseconds == 28_000)
    }

    @Test func `An end that did not come is a loss`() {
        var history = correctHistory()
        history.setScreen(5)
        #expect(history.findings().losses == ["a: has not ended"])
    }

    @Test func `A start that did not come is a loss`() {
        var history = TestHistory()
        history.addCommand(1, .start, at: 0, hasAlert: true)
        history.addCommand(2, at: 2_000)
        #expect(history.findings().losses == ["a: no phone has it"])
        let findings = history.findings(ageLimits: AgeLimits(startAgeSecondsMax: 10))
        #expect(findings.arePromisesKept, "it must not come so late")
    }

    @Test func `An end of an activity that never began is no loss`() {
        var history = TestHistory()
        history.addCommand(1, .start, at: 0, hasAlert: true)
        history.addCommand(2, .end, at: 2_000)
        let findings = history.findings()
        #expect(findings.arePromisesKept && findings.longestSilenceMilliseconds == 0)
    }

    @Test func `A state that has expired is no loss`() {
        var history = TestHistory()
        history.addCommand(1, at: 0)
        history.addPush(1, at: 100)
        history.addCommand(2, at: 2_000, expiresAtMilliseconds: 12_000)
        history.setScreen(1)
        #expect(history.findings().arePromisesKept)
        #expect(history.findings(at: 11_000).losses.count == 1)
    }

    @Test func `An invalid command, or one after the end, is not the newest state`() {
        var history = correctHistory()
        history.addCommand(6, at: 9_000, ageSeconds: Self.futureAgeSeconds, isValid: false)
        history.addCommand(7, at: 9_500)
        #expect(history.findings().arePromisesKept)
    }

    @Test func `An alert that never rang is a loss`() {
        var history = TestHistory()
        history.addCommand(1, at: 0, hasAlert: true)
        history.addCommand(2, at: 2_000)
        history.addPush(2, at: 2_100)
        history.setScreen(2)
        #expect(history.findings().losses == ["a: the alert of 1 never rang"])
        let findings = history.findings(ageLimits: AgeLimits(alertAgeSecondsMax: 20))
        #expect(findings.arePromisesKept, "it must not ring so late")
    }

    @Test func `An alert that came with a newer state, or that a newer alert replaced, is no loss`() {
        var history = TestHistory()
        history.addCommand(1, at: 0, hasAlert: true)
        history.addCommand(2, at: 1_000, hasAlert: true)
        history.addCommand(3, at: 2_000)
        history.addPush(3, at: 2_100, alert: 2)
        history.setScreen(3)
        #expect(history.findings().arePromisesKept)
    }

    @Test func `An alert that was only on a push that reached nobody is a loss`() {
        var history = TestHistory()
        history.addCommand(1, at: 0, hasAlert: true)
        history.addPush(1, at: 100, alert: 1, status: 503, nil)
        history.setScreen(1)
        #expect(history.findings().losses == ["a: the alert of 1 never rang"])
    }

    // MARK: - Old states

    @Test func `A push that goes back in time is a fault`() {
        var history = correctHistory()
        history.addPush(2, at: 6_500)
        #expect(history.findings().oldPushes == ["a: 2 after a newer one"])
    }

    @Test func `A push that the phone dropped as old is a fault`() {
        var history = correctHistory()
        history.addPush(4, at: 6_500, .droppedAsOld)
        #expect(history.findings().oldPushes.count == 1)
    }

    @Test func `A push after the end is a fault`() {
        var history = correctHistory()
        history.addPush(5, at: 9_000, .droppedAsOld)
        #expect(history.findings().oldPushes.count == 1)
    }

    @Test func `A refused push is not old`() {
        var history = correctHistory()
        history.addPush(2, at: 6_500, status: 410, nil)
        #expect(history.findings().arePromisesKept)
    }

    @Test(arguments: [(Event.start, Int64(600)), (.update, 28_800), (.end, 43_200)])
    func `A push past its age limit is a fault`(event: Event, ageSecondsMax: Int64) {
        for (ageSeconds, oldPushCount) in [(ageSecondsMax - 10, 0), (ageSecondsMax + 10, 1)] {
            var history = TestHistory()
            history.addCommand(1, event, at: 0, ageSeconds: ageSeconds)
            history.addPush(1, at: 100, event == .start ? .started : event == .end ? .ended : .shown)
            history.setScreen(1, isFinished: event == .end)
            #expect(history.findings().oldPushes.count == oldPushCount)
        }
    }

    @Test func `An old alert on a new state is a fault`() {
        var history = TestHistory()
        history.addCommand(1, at: 0, hasAlert: true, ageSeconds: 310)
        history.addCommand(2, at: 1_000)
        history.addPush(2, at: 1_100, alert: 1)
        history.setScreen(2)
        #expect(history.findings().oldPushes == ["a: the alert of 1, 311 s old"])
    }

    @Test func `An alert after a newer one is a fault`() {
        var history = TestHistory()
        history.addCommand(1, at: 0, hasAlert: true)
        history.addCommand(2, at: 1_000, hasAlert: true)
        history.addCommand(3, at: 2_000)
        history.addPush(2, at: 1_100, alert: 2)
        history.addPush(3, at: 2_100, alert: 1)
        history.setScreen(3)
        #expect(history.findings().oldPushes == ["a: the alert of 1 after a newer one"])
    }

    @Test func `A push of an invalid command is a fault`() {
        var history = correctHistory()
        history.addCommand(6, at: 7_000, ageSeconds: Self.futureAgeSeconds, isValid: false)
        history.addPush(6, at: 7_100)
        #expect(history.findings().oldPushes == ["a: a push that no valid command requests"])
    }

    // MARK: - Pushes and alerts that came twice

    @Test func `A start that came twice is a fault`() {
        var history = correctHistory()
        history.addPush(1, at: 1_000, alert: 1, .started)
        #expect(history.findings().repeats == ["a: started again after 950 ms"])
    }

    @Test func `No crash excuses a second start`() {
        var history = correctHistory()
        history.addPush(1, at: 1_000, alert: 1, .started)
        let crash = AlertRepeatCause(
            happenedAtMilliseconds: TestHistory.beginMilliseconds + 500,
            alertRepeatWindowMilliseconds: 5_000
        )
        #expect(findingCounts(history.findings(crash: crash)) == [0, 0, 1, 0])
    }

    @Test func `An alert that rang twice is a fault`() {
        var history = correctHistory()
        history.addPush(4, at: 6_500, alert: 3)
        #expect(history.findings().repeats == ["a: Alert 3 again after 2100 ms"])
    }

    @Test func `A crash excuses only a repeated alert that first rang shortly before the crash`() {
        var history = correctHistory()
        history.addPush(4, at: 6_500, alert: 3)
        func findings(crashAt milliseconds: Int64) -> [Int] {
            findingCounts(
                history.findings(
                    crash: AlertRepeatCause(
                        happenedAtMilliseconds: TestHistory.beginMilliseconds + milliseconds,
                        alertRepeatWindowMilliseconds: 1_000
                    )
                )
            )
        }
        #expect(findings(crashAt: 5_000) == [0, 0, 0, 1])
        #expect(findings(crashAt: 6_000) == [0, 0, 1, 0], "it had rung long before")
        #expect(findings(crashAt: 7_000) == [0, 0, 1, 0], "it rang again before")
        #expect(findings(crashAt: 3_000) == [0, 0, 1, 0], "it first rang after")
    }

    @Test func `The same alert text on two activities does not count as twice`() {
        var history = correctHistory()
        history.addCommand(3, of: "b", at: 4_000, hasAlert: true)
        history.addPush(3, of: "b", at: 4_100, alert: 3)
        history.setScreen(3, of: "b")
        #expect(history.findings().arePromisesKept)
    }

    // MARK: - Phones that got nothing

    @Test func `Silence counts from the oldest state that was not shown`() {
        var history = TestHistory()
        history.addCommand(1, at: 0)
        history.addCommand(2, at: 2_000)
        history.addCommand(3, at: 9_000)
        history.addPush(1, at: 100)
        history.addPush(3, at: 12_000)
        history.setScreen(3)
        #expect(history.findings().longestSilenceMilliseconds == 10_000)
    }

    // MARK: - Lifetimes

    /// Returns the history of an activity that ended with its lifetime.
    ///
    /// - Parameters:
    ///   - isStarted: whether a push started the activity; otherwise the app did.
    ///   - endCount, restartCount: the number of ends and of new starts that reached the phone.
    private func lifetimeHistory(isStarted: Bool = true, endCount: Int = 1, restartCount: Int, isFinished: Bool)
        -> TestHistory
    {
        var history = TestHistory()
        history.addCommand(1, isStarted ? .start : .update, at: 1_000, hasAlert: true)
        history.addPush(1, at: 1_100, alert: 1, isStarted ? .started : .shown)
        history.addCommand(2, at: 4_000)
        history.addPush(2, at: 4_100)
        for number in 0..<Int64(endCount) { history.addLifetimeEnd(at: 9_000 + number) }
        for number in 0..<Int64(restartCount) { history.addPush(2, at: 10_000 + number, alert: 1, .started) }
        history.setScreen(2, isFinished: isFinished)
        return history
    }

    @Test func `An activity ends with its lifetime, and is started again if the case says so`() {
        let restarted = lifetimeHistory(restartCount: 1, isFinished: false)
        #expect(restarted.findings(afterLifetime: .restart).arePromisesKept)
        #expect(findingCounts(restarted.findings(afterLifetime: .end)) == [1, 0, 1, 0])
        let endedHistory = lifetimeHistory(restartCount: 0, isFinished: true)
        #expect(endedHistory.findings(afterLifetime: .end).arePromisesKept)
        #expect(findingCounts(endedHistory.findings(afterLifetime: .restart)) == [2, 0, 0, 0])
        #expect(
            lifetimeHistory(isStarted: false, restartCount: 0, isFinished: true).findings(afterLifetime: .restart)
                .arePromisesKept
        )
    }

    @Test func `A second end of a lifetime, or a second start after it, is a fault`() {
        #expect(
            findingCounts(
                lifetimeHistory(endCount: 2, restartCount: 1, isFinished: false).findings(afterLifetime: .restart)
            )
                == [
                    0, 0, 1, 0,
                ]
        )
        #expect(
            findingCounts(lifetimeHistory(restartCount: 2, isFinished: false).findings(afterLifetime: .restart)) == [
                0, 0, 1, 0,
            ]
        )
    }

    @Test func `A lifetime that did not end is a loss`() {
        #expect(
            findingCounts(
                lifetimeHistory(endCount: 0, restartCount: 0, isFinished: false).findings(afterLifetime: .end)
            ) == [
                2, 0, 0, 0,
            ]
        )
    }
}
