import LiveActivity
import Testing

@testable import CausewayLab

@Suite("The judge of an outage")
struct OutageJudgeTests {
    /// Returns a correct history: a start, three updates and an end. The start and the second update ring.
    private func correctHistory() -> History {
        var history = History()
        history.command(1, .start, at: 0, alert: true)
        history.command(2, at: 2_000)
        history.command(3, at: 4_000, alert: true)
        history.command(4, at: 6_000)
        history.command(5, .end, at: 8_000)
        history.push(1, at: 50, alert: 1, .started)
        history.push(2, at: 2_100)
        history.push(3, at: 4_400, alert: 3)
        history.push(4, at: 6_100)
        history.push(5, at: 8_100, .ended)
        history.screen(5, isFinished: true)
        return history
    }

    private func counts(_ verdict: OutageVerdict) -> [Int] {
        [verdict.losses.count, verdict.oldPushes.count, verdict.repeats.count, verdict.excusedRepeats.count]
    }

    @Test func `A correct history has no fault`() {
        let verdict = correctHistory().verdict()
        #expect(verdict.isGood && counts(verdict) == [0, 0, 0, 0])
        #expect(verdict.longestSilenceMilliseconds == 400)
        #expect(verdict.freshness99(of: "match") == 400)
    }

    @Test func `An empty history has no fault`() {
        #expect(History().verdict().isGood)
    }

    // MARK: - States and alerts that were lost

    @Test func `A phone with an older state is a loss`() {
        var history = History()
        history.command(1, at: 0)
        history.command(2, at: 2_000)
        history.push(1, at: 100)
        history.screen(1)
        let verdict = history.verdict()
        #expect(verdict.losses == ["a: shows 1, not 2"])
        #expect(verdict.longestSilenceMilliseconds == 28_000)
    }

    @Test func `An end that did not come is a loss`() {
        var history = correctHistory()
        history.screen(5)
        #expect(history.verdict().losses == ["a: has not ended"])
    }

    @Test func `A start that did not come is a loss`() {
        var history = History()
        history.command(1, .start, at: 0, alert: true)
        history.command(2, at: 2_000)
        #expect(history.verdict().losses == ["a: no phone has it"])
        #expect(history.verdict(bounds: AgeBounds(startSeconds: 10)).isGood, "it may not come so late")
    }

    @Test func `An end of an activity that never began is no loss`() {
        var history = History()
        history.command(1, .start, at: 0, alert: true)
        history.command(2, .end, at: 2_000)
        let verdict = history.verdict()
        #expect(verdict.isGood && verdict.longestSilenceMilliseconds == 0)
    }

    @Test func `A state that has expired is no loss`() {
        var history = History()
        history.command(1, at: 0)
        history.push(1, at: 100)
        history.command(2, at: 2_000, expiresAt: 12_000)
        history.screen(1)
        #expect(history.verdict().isGood)
        #expect(history.verdict(at: 11_000).losses.count == 1)
    }

    @Test func `An invalid command, or one after the end, is not the newest state`() {
        var history = correctHistory()
        history.command(6, at: 9_000, ageSeconds: -2_000_000_000, isValid: false)
        history.command(7, at: 9_500)
        #expect(history.verdict().isGood)
    }

    @Test func `An alert that never rang is a loss`() {
        var history = History()
        history.command(1, at: 0, alert: true)
        history.command(2, at: 2_000)
        history.push(2, at: 2_100)
        history.screen(2)
        #expect(history.verdict().losses == ["a: the alert of 1 never rang"])
        #expect(history.verdict(bounds: AgeBounds(alertSeconds: 20)).isGood, "it may not ring so late")
    }

    @Test func `An alert that rode on, or was replaced by a newer one, is no loss`() {
        var history = History()
        history.command(1, at: 0, alert: true)
        history.command(2, at: 1_000, alert: true)
        history.command(3, at: 2_000)
        history.push(3, at: 2_100, alert: 2)
        history.screen(3)
        #expect(history.verdict().isGood)
    }

    @Test func `An alert that was only on a push that reached nobody is a loss`() {
        var history = History()
        history.command(1, at: 0, alert: true)
        history.push(1, at: 100, alert: 1, status: 503, nil)
        history.screen(1)
        #expect(history.verdict().losses == ["a: the alert of 1 never rang"])
    }

    // MARK: - Old states

    @Test func `A push that goes back in time is a fault`() {
        var history = correctHistory()
        history.push(2, at: 6_500)
        #expect(history.verdict().oldPushes == ["a: 2 after a newer one"])
    }

    @Test func `A push that the phone dropped as old is a fault`() {
        var history = correctHistory()
        history.push(4, at: 6_500, .droppedAsOld)
        #expect(history.verdict().oldPushes.count == 1)
    }

    @Test func `A push after the end is a fault`() {
        var history = correctHistory()
        history.push(5, at: 9_000, .droppedAsOld)
        #expect(history.verdict().oldPushes.count == 1)
    }

    @Test func `A refused push is not old`() {
        var history = correctHistory()
        history.push(2, at: 6_500, status: 410, nil)
        #expect(history.verdict().isGood)
    }

    @Test(arguments: [(Event.start, Int64(600)), (.update, 28_800), (.end, 43_200)])
    func `A push past its age limit is a fault`(event: Event, seconds: Int64) {
        for (age, count) in [(seconds - 10, 0), (seconds + 10, 1)] {
            var history = History()
            history.command(1, event, at: 0, ageSeconds: age)
            history.push(1, at: 100, event == .start ? .started : event == .end ? .ended : .shown)
            history.screen(1, isFinished: event == .end)
            #expect(history.verdict().oldPushes.count == count)
        }
    }

    @Test func `An old alert on a new state is a fault`() {
        var history = History()
        history.command(1, at: 0, alert: true, ageSeconds: 310)
        history.command(2, at: 1_000)
        history.push(2, at: 1_100, alert: 1)
        history.screen(2)
        #expect(history.verdict().oldPushes == ["a: the alert of 1, 311 s old"])
    }

    @Test func `An alert after a newer one is a fault`() {
        var history = History()
        history.command(1, at: 0, alert: true)
        history.command(2, at: 1_000, alert: true)
        history.command(3, at: 2_000)
        history.push(2, at: 1_100, alert: 2)
        history.push(3, at: 2_100, alert: 1)
        history.screen(3)
        #expect(history.verdict().oldPushes == ["a: the alert of 1 after a newer one"])
    }

    @Test func `A push of an invalid command is a fault`() {
        var history = correctHistory()
        history.command(6, at: 7_000, ageSeconds: -2_000_000_000, isValid: false)
        history.push(6, at: 7_100)
        #expect(history.verdict().oldPushes == ["a: a push that no valid command requests"])
    }

    // MARK: - Pushes and alerts that came twice

    @Test func `A start that came twice is a fault`() {
        var history = correctHistory()
        history.push(1, at: 1_000, alert: 1, .started)
        #expect(history.verdict().repeats == ["a: started again after 950 ms"])
    }

    @Test func `No crash excuses a second start`() {
        var history = correctHistory()
        history.push(1, at: 1_000, alert: 1, .started)
        let crash = Crash(milliseconds: History.zero + 500, forgottenMilliseconds: 5_000)
        #expect(counts(history.verdict(crash: crash)) == [0, 0, 1, 0])
    }

    @Test func `An alert that rang twice is a fault`() {
        var history = correctHistory()
        history.push(4, at: 6_500, alert: 3)
        #expect(history.verdict().repeats == ["a: Alert 3 again after 2100 ms"])
    }

    @Test func `A crash excuses the alerts of its last moments only`() {
        var history = correctHistory()
        history.push(4, at: 6_500, alert: 3)
        func verdict(crashAt milliseconds: Int64) -> [Int] {
            counts(
                history.verdict(
                    crash: Crash(milliseconds: History.zero + milliseconds, forgottenMilliseconds: 1_000)
                )
            )
        }
        #expect(verdict(crashAt: 5_000) == [0, 0, 0, 1])
        #expect(verdict(crashAt: 6_000) == [0, 0, 1, 0], "it had rung long before")
        #expect(verdict(crashAt: 7_000) == [0, 0, 1, 0], "it rang again before")
        #expect(verdict(crashAt: 3_000) == [0, 0, 1, 0], "it first rang after")
    }

    @Test func `The same alert text on two activities does not count as twice`() {
        var history = correctHistory()
        history.command(3, of: "b", at: 4_000, alert: true)
        history.push(3, of: "b", at: 4_100, alert: 3)
        history.screen(3, of: "b")
        #expect(history.verdict().isGood)
    }

    // MARK: - Phones that got nothing

    @Test func `Silence counts from the oldest state that was not shown`() {
        var history = History()
        history.command(1, at: 0)
        history.command(2, at: 2_000)
        history.command(3, at: 9_000)
        history.push(1, at: 100)
        history.push(3, at: 12_000)
        history.screen(3)
        #expect(history.verdict().longestSilenceMilliseconds == 10_000)
    }

    // MARK: - Lifetimes

    /// Returns the history of an activity that ended with its lifetime.
    ///
    /// - Parameters:
    ///   - isStarted: whether a push started the activity; otherwise the app did.
    ///   - ends, restarts: the number of ends and of new starts that reached the phone.
    private func limited(isStarted: Bool = true, ends: Int = 1, restarts: Int, isFinished: Bool) -> History {
        var history = History()
        history.command(1, isStarted ? .start : .update, at: 1_000, alert: true)
        history.push(1, at: 1_100, alert: 1, isStarted ? .started : .shown)
        history.command(2, at: 4_000)
        history.push(2, at: 4_100)
        for number in 0..<Int64(ends) { history.endLifetime(at: 9_000 + number) }
        for number in 0..<Int64(restarts) { history.push(2, at: 10_000 + number, alert: 1, .started) }
        history.screen(2, isFinished: isFinished)
        return history
    }

    @Test func `An activity ends with its lifetime, and is started again if the case says so`() {
        let restarted = limited(restarts: 1, isFinished: false)
        #expect(restarted.verdict(afterLifetime: .restart).isGood)
        #expect(counts(restarted.verdict(afterLifetime: .end)) == [1, 0, 1, 0])
        let ended = limited(restarts: 0, isFinished: true)
        #expect(ended.verdict(afterLifetime: .end).isGood)
        #expect(counts(ended.verdict(afterLifetime: .restart)) == [2, 0, 0, 0])
        #expect(limited(isStarted: false, restarts: 0, isFinished: true).verdict(afterLifetime: .restart).isGood)
    }

    @Test func `A second end of a lifetime, or a second start after it, is a fault`() {
        #expect(
            counts(limited(ends: 2, restarts: 1, isFinished: false).verdict(afterLifetime: .restart)) == [0, 0, 1, 0]
        )
        #expect(counts(limited(restarts: 2, isFinished: false).verdict(afterLifetime: .restart)) == [0, 0, 1, 0])
    }

    @Test func `A lifetime that did not end is a loss`() {
        #expect(counts(limited(ends: 0, restarts: 0, isFinished: false).verdict(afterLifetime: .end)) == [2, 0, 0, 0])
    }
}
