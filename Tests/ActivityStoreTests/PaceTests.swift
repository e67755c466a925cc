import LiveActivity
import Numbers
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The scripts' rules about time: spacing, the budget of pushes with priority 10, an activity's life, a
/// device's starts.
@Suite(.serialized, .ownThread) struct PaceTests {
    private static let startMilliseconds: Int64 = 1_760_000_400_000
    private static let hourMilliseconds: Int64 = 3_600_000

    private func makeComparison(_ key: TestKey = .activity("match-17")) throws -> ScriptComparison {
        try ScriptComparison(key, nowMilliseconds: Self.startMilliseconds)
    }

    /// The budget `budget` has three pushes and gains one every ten seconds. The budget for frequent updates has
    /// five pushes and gains one every second. Each budget keeps one push in reserve.
    private func makePace(spacing: Int64 = 0) -> Policy.Pace {
        Policy.Pace(
            spacingMilliseconds: spacing,
            throttledSpacingMillisecondsMax: 5_000,
            throttleRecoveryMilliseconds: 60_000,
            budget: .filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 1),
            frequentBudget: .filling(intervalMilliseconds: 1_000, pushes: 5, reserved: 1)
        )
    }

    private func makeCommand(
        _ timestamp: UInt64,
        _ event: Event = .update,
        spacing: Int64 = 0,
        high: Bool = false,
        reserve: Bool = false,
        token: OwnedToken? = nil
    ) -> Operation {
        .command(
            event: event,
            version: .at(timestamp),
            digest: timestamp,
            pace: makePace(spacing: spacing),
            options: AdmissionOptions(requestsHighPriority: high, mayUseReserve: reserve, hasAlert: false),
            registration: token
        )
    }

    private let token = OwnedToken(token: [1, 2, 3], environment: .sandbox, registeredAtMilliseconds: 5)

    private func makeRegistration(allowsFrequentUpdates: Bool, at: Int64 = 6) -> Operation {
        var token = token
        token.registeredAtMilliseconds = at
        return .register(
            attributesType: nil,
            registration: token,
            allowsFrequentUpdates: allowsFrequentUpdates,
            shownVersion: nil
        )
    }

    private func makeThrottle(_ timestamp: UInt64, spacing: Int64) -> Operation {
        Operation.throttle(version: .at(timestamp), pace: makePace(spacing: spacing))
    }

    // MARK: - Spacing

    @Test func `Two pushes are a spacing apart, to the millisecond`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(100, spacing: 1_000, token: token)) == .send)
        comparison.advanceClock(1)
        #expect(comparison.perform(makeCommand(101, spacing: 1_000)).waitMilliseconds == 999)
        comparison.advanceClock(998)
        #expect(comparison.perform(makeCommand(101, spacing: 1_000)).waitMilliseconds == 1)
        comparison.advanceClock(1)
        #expect(comparison.verdict(makeCommand(101, spacing: 1_000)) == .send)
    }

    @Test func `A clock that was set back does not delay pushes`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(100, spacing: 1_000, token: token)) == .send)
        comparison.settle(makeThrottle(100, spacing: 1_000))
        comparison.advanceClock(-60_000)
        #expect(comparison.verdict(makeCommand(101, spacing: 1_000)) == .send)
        #expect(comparison.perform(makeCommand(102, spacing: 1_000)).waitMilliseconds == 1_000)
        comparison.settle(makeThrottle(101, spacing: 1_000))
        #expect(comparison.perform(makeCommand(102, spacing: 1_000)).waitMilliseconds == 2_000)
    }

    @Test func `Each 429 doubles the spacing, up to a limit, and each minute without a 429 undoes a doubling`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(100, spacing: 1_000, token: token)) == .send)
        for (number, spacing) in [2_000, 4_000, 5_000, 5_000].enumerated() {
            comparison.settle(makeThrottle(100 + UInt64(number), spacing: 1_000))
            // The same 429 is reported twice, because the reply to the first report was lost.
            comparison.advanceClock(1)
            comparison.settle(makeThrottle(100 + UInt64(number), spacing: 1_000))
            let nextCommand = makeCommand(101 + UInt64(number), spacing: 1_000)
            #expect(comparison.perform(nextCommand).waitMilliseconds == Int64(spacing) - 1)
            comparison.advanceClock(Int64(spacing) - 1)
            #expect(comparison.verdict(nextCommand) == .send)
        }
        // The first three 429 doubled the spacing up to its limit. The fourth one only keeps this spacing for another
        // minute.
        comparison.advanceClock(60_000 - 5_000)
        #expect(comparison.verdict(makeCommand(110, spacing: 1_000)) == .send)
        #expect(comparison.perform(makeCommand(111, spacing: 1_000)).waitMilliseconds == 4_000)
        comparison.advanceClock(60_000)
        #expect(comparison.verdict(makeCommand(111, spacing: 1_000)) == .send)
        #expect(comparison.perform(makeCommand(112, spacing: 1_000)).waitMilliseconds == 2_000)
        comparison.advanceClock(60_000)
        #expect(comparison.verdict(makeCommand(112, spacing: 1_000)) == .send)
        #expect(comparison.perform(makeCommand(113, spacing: 1_000)).waitMilliseconds == 1_000)
    }

    @Test func `A 429 changes only the spacing`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(100, high: true, token: token)) == .send)
        let hashBefore = comparison.server.hash(comparison.key.text)
        comparison.settle(makeThrottle(100, spacing: 0))
        var hashAfter = comparison.server.hash(comparison.key.text)
        #expect(hashAfter.removeValue(forKey: ActivityPart.throttle) != nil && hashBefore[ActivityPart.throttle] == nil)
        // The value has a flag that says that it has a 429. The test removes this flag before the comparison.
        hashAfter[ActivityPart.fixed]?[StoredActivity.flagsByteOffset] &-= StoredActivity.Flag.hasThrottleBit
        #expect(hashAfter == hashBefore)
        // A 429 of an unknown activity stores nothing.
        comparison.settle(makeThrottle(100, spacing: 0), .activity("other"))
        #expect(comparison.server.hash(TestKey.activity("other").text).isEmpty)
    }

    // MARK: - The budget of pushes with priority 10

    @Test func `Pushes of priority 10 draw down to the reserve, and a push that finds none left is demoted`() throws {
        let comparison = try makeComparison()
        var replies = [comparison.perform(makeCommand(100, high: true, token: token))]
        for timestamp in 101...102 as ClosedRange<UInt64> {
            replies.append(comparison.perform(makeCommand(timestamp, high: true)))
        }
        #expect(replies.map(\.priority) == [10, 10, 5])
        #expect(replies.map(\.isDemoted) == [false, false, true])
        #expect(replies.map(\.budgetLeft) == [2, 1, 1])
        let alertReply = comparison.perform(makeCommand(103, high: true, reserve: true))
        #expect(alertReply.priority == 10 && alertReply.budgetLeft == 0)
        let lateReply = comparison.perform(makeCommand(104, .end, high: true, reserve: true))
        #expect(lateReply.verdict == .send && lateReply.priority == 5 && lateReply.isDemoted)
    }

    @Test func `A push of priority 5 draws nothing, and its reply says what is left`() throws {
        let comparison = try makeComparison()
        #expect(comparison.perform(makeCommand(100, high: true, token: token)).budgetLeft == 2)
        for timestamp in 101...110 as ClosedRange<UInt64> {
            let reply = comparison.perform(makeCommand(timestamp, reserve: true))
            #expect(reply.priority == 5 && !reply.isDemoted && reply.budgetLeft == 2)
        }
    }

    @Test func `The bucket gains a push each interval, to the millisecond, up to its size`() throws {
        let comparison = try makeComparison()
        for timestamp in 100...102 as ClosedRange<UInt64> {
            #expect(comparison.perform(makeCommand(timestamp, high: true, reserve: true, token: token)).priority == 10)
        }
        comparison.advanceClock(9_999)
        #expect(comparison.perform(makeCommand(103, high: true, reserve: true)).isDemoted)
        comparison.advanceClock(1)
        #expect(comparison.perform(makeCommand(104, high: true, reserve: true)).priority == 10)
        comparison.advanceClock(Self.hourMilliseconds)
        #expect(comparison.perform(makeCommand(105, high: true)).budgetLeft == 2)
    }

    @Test func `Frequent updates have a larger bucket, and a switch between the two buckets keeps the stored number`()
        throws
    {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: true)) == .registered)
        #expect(comparison.perform(makeCommand(100, high: true)).budgetLeft == 4)
        // A token that comes with a command does not say whether the app allows frequent updates.
        #expect(comparison.perform(makeCommand(101, high: true, token: token)).budgetLeft == 3)
        // Redis stores the time at which the budget is full again. The larger budget lacks two pushes, so it is full in
        // two seconds. The smaller budget gains a push in ten seconds, so two seconds before it is full, it lacks one.
        #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: false)) == .registered)
        #expect(comparison.perform(makeCommand(102)).budgetLeft == 2)
        // A stale registration does not change the budget.
        #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: true, at: 4)) == .stale)
        #expect(comparison.perform(makeCommand(103)).budgetLeft == 2)
    }

    @Test func `A version draws once, for any number of admissions`() throws {
        let comparison = try makeComparison()
        #expect(comparison.perform(makeCommand(100, high: true, token: token)).budgetLeft == 2)
        for _ in 0..<3 {
            let repeatedReply = comparison.perform(makeCommand(100, high: true))
            #expect(repeatedReply.priority == 10 && repeatedReply.budgetLeft == 2)
        }
        // The token is retired, and the command is held until the next token. The command keeps its draw from
        // the budget.
        comparison.settle(
            Operation.settlement(
                version: .at(1),
                outcome: .unknown,
                digest: 0,
                retirement: .init(token: [1, 2, 3], environment: .sandbox, invalidAtMilliseconds: nil)
            )
        )
        #expect(comparison.verdict(.hold(attributesType: nil, version: .at(100), command: [1])) == .held)
        #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: false, at: 9)) == .registered)
        #expect(comparison.perform(makeCommand(100, high: true)).budgetLeft == 2)
        #expect(comparison.perform(makeCommand(101, high: true)).budgetLeft == 1)
        // The priority of command 102 is lowered, because the budget is used up. When the command is admitted again
        // and the budget suffices, the command draws from it.
        #expect(comparison.perform(makeCommand(102, high: true)).isDemoted)
        comparison.advanceClock(10_000)
        #expect(comparison.perform(makeCommand(102, high: true)).priority == 10)
    }

    @Test func `A start fills the bucket, and resets the spacing`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: true)) == .registered)
        #expect(comparison.perform(makeCommand(100, .end, high: true)).budgetLeft == 4)
        comparison.settle(makeThrottle(100, spacing: 1_000))
        comparison.settle(Operation.settlement(version: .at(100), outcome: .accepted, digest: 100))
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .send)
        comparison.advanceClock(1_000)
        // In the new life no registration has said that the app allows frequent updates, so the activity has
        // the budget without frequent updates.
        let newerToken = OwnedToken(token: [4], environment: .sandbox, registeredAtMilliseconds: 9)
        #expect(comparison.perform(makeCommand(102, spacing: 1_000, high: true, token: newerToken)).budgetLeft == 2)
        // The same start comes again. It does not fill the budget again.
        let storedHash = comparison.server.hash(comparison.key.text)
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .superseded)
        #expect(comparison.server.hash(comparison.key.text) == storedHash)
    }

    // MARK: - An activity's life

    @Test(arguments: [false, true])
    func `Eight hours after its birth an activity accepts only its end`(isStarted: Bool) throws {
        let comparison = try makeComparison()
        if isStarted {
            #expect(comparison.verdict(.start(version: .at(100), claim: 1)) == .send)
        } else {
            // Without a start, the activity's life begins with its registration.
            #expect(comparison.verdict(makeRegistration(allowsFrequentUpdates: false)) == .registered)
        }
        // Redis counts whole seconds: the second in which the eight hours end still belongs to the life.
        comparison.advanceClock(8 * Self.hourMilliseconds)
        #expect(comparison.verdict(makeCommand(101, token: token)) == .send)
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(makeCommand(102)) == .activityOver)
        #expect(comparison.verdict(makeCommand(101)) == .activityOver)
        #expect(comparison.verdict(makeCommand(100)) == .superseded)
        #expect(comparison.verdict(makeCommand(103, .end)) == .send)
        comparison.settle(Operation.settlement(version: .at(103), outcome: .accepted, digest: 0))
        #expect(comparison.verdict(.start(version: .at(104), claim: 2)) == .send)
        #expect(
            comparison.verdict(
                makeCommand(105, token: OwnedToken(token: [4], environment: .sandbox, registeredAtMilliseconds: 9))
            ) == .send
        )
    }

    // MARK: - Starts of a device

    @Test func `Look-ups of start tokens share one budget for all attributes types, and draws may be refunded`() throws
    {
        let comparison = try makeComparison(.device("phone"))
        let budget = Policy.Bucket.filling(intervalMilliseconds: 10_000, pushes: 2, reserved: 0)
        func takeStartToken(_ type: String) -> OwnedReply {
            comparison.perform(.takeStartToken(attributesType: type, startBudget: budget, registration: nil))
        }
        #expect(takeStartToken("Game").verdict == .noToken)
        comparison.refundStart(budget, drawIdentifier: 0)
        var draws: [Int64] = []
        for type in ["Game", "Race"] {
            #expect(
                comparison.verdict(.register(attributesType: type, registration: token, shownVersion: nil))
                    == .registered
            )
            let reply = takeStartToken(type)
            #expect(reply.registration == token)
            draws.append(reply.drawIdentifier)
        }
        comparison.advanceClock(100)
        #expect(takeStartToken("Game").waitMilliseconds == 9_900)
        comparison.refundStart(budget, drawIdentifier: draws[1])
        #expect(takeStartToken("Game").verdict == .tokenFound)
        #expect(takeStartToken("Race").waitMilliseconds == 9_900)
        comparison.advanceClock(9_900)
        #expect(takeStartToken("Race").verdict == .tokenFound)
        #expect(takeStartToken("Race").verdict == .wait)
        // The token that a start brings is stored even if the start must wait.
        let newerToken = OwnedToken(token: [7], environment: .production, registeredAtMilliseconds: 50)
        #expect(
            comparison.verdict(.takeStartToken(attributesType: "Race", startBudget: budget, registration: newerToken))
                == .wait
        )
        comparison.advanceClock(10_000)
        #expect(takeStartToken("Race").registration == newerToken)
    }

    /// This test runs only the model. `DifferentialTests` compares the scripts with the model.
    @Test func `Refunds in any order never make the bucket fuller than the kept draws allow`() {
        var random = SplitMix64(seed: 7)
        for _ in 0..<20_000 {
            let intervalMilliseconds = Int64(1 + random.below(50))
            let budget = Policy.Bucket.filling(intervalMilliseconds: intervalMilliseconds, pushes: 10_000, reserved: 0)
            var model = StoreModel(nowMilliseconds: 1_760_000_000_000)
            let phone = TestKey.device("phone")
            _ = model.perform(
                phone.call(.register(attributesType: "Game", registration: token, shownVersion: nil), tag: 0)
            )
            var draws: [(atMilliseconds: Int64, identifier: Int64, isKept: Bool)] = []
            for _ in 0..<2 + random.below(12) {
                model.nowMilliseconds += [0, 0, 1, Int64(random.below(Int(intervalMilliseconds) * 3))][random.below(4)]
                let keptDrawIndices = draws.indices.filter { draws[$0].isKept }
                if !keptDrawIndices.isEmpty, random.below(2) == 0 {
                    let drawIndex = random.pick(keptDrawIndices)
                    draws[drawIndex].isKept = false
                    let call = Operation.refundStart(startBudget: budget, drawIdentifier: draws[drawIndex].identifier)
                    _ = model.perform(phone.call(call, tag: 0))
                } else {
                    let call = Operation.takeStartToken(attributesType: "Game", startBudget: budget, registration: nil)
                    draws.append((model.nowMilliseconds, model.perform(phone.call(call, tag: 0)).drawIdentifier, true))
                }
                let expectedFullAtMilliseconds = draws.filter(\.isKept)
                    .reduce(Int64(0)) { fullAt, draw in max(fullAt, draw.atMilliseconds) + intervalMilliseconds }
                let modelFullAtMilliseconds = max(
                    model.devices[phone.text]?.startBudgetFullAtMilliseconds ?? 0,
                    model.nowMilliseconds
                )
                guard modelFullAtMilliseconds >= expectedFullAtMilliseconds else {
                    Issue.record("full at \(modelFullAtMilliseconds), not \(expectedFullAtMilliseconds): \(draws)")
                    return
                }
            }
        }
    }

    @Test func `A refund gives back neither what was refilled since, nor what another refund gave back`() throws {
        let comparison = try makeComparison(.device("phone"))
        let budget = Policy.Bucket.filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 0)
        func takeStartToken() -> OwnedReply {
            comparison.perform(.takeStartToken(attributesType: "Game", startBudget: budget, registration: nil))
        }
        #expect(
            comparison.verdict(.register(attributesType: "Game", registration: token, shownVersion: nil)) == .registered
        )
        // When all draws are refunded at once, the budget is full again.
        let initialDraws = [
            takeStartToken().drawIdentifier, takeStartToken().drawIdentifier, takeStartToken().drawIdentifier,
        ]
        #expect(takeStartToken().verdict == .wait)
        for drawIdentifier in initialDraws { comparison.refundStart(budget, drawIdentifier: drawIdentifier) }
        let firstDraw = takeStartToken().drawIdentifier
        let secondDraw = takeStartToken().drawIdentifier
        comparison.advanceClock(9_000)
        comparison.refundStart(budget, drawIdentifier: firstDraw)
        // When the first draw was refunded, the budget had regained nine tenths of the first push. The refund gives
        // back the last tenth. So the second push comes back one second earlier.
        #expect(
            comparison.model.devices[comparison.key.text]?.startBudgetFullAtMilliseconds == comparison.model
                .nowMilliseconds
                + 10_000
        )
        comparison.advanceClock(9_000)
        let thirdDraw = takeStartToken().drawIdentifier
        comparison.advanceClock(1_500)
        // The second push came back half a second ago, so the refund of its draw changes nothing.
        comparison.refundStart(budget, drawIdentifier: secondDraw)
        #expect(
            comparison.model.devices[comparison.key.text]?.startBudgetFullAtMilliseconds == comparison.model
                .nowMilliseconds
                + 9_500
        )
        comparison.refundStart(budget, drawIdentifier: thirdDraw)
        #expect(takeStartToken().drawIdentifier > thirdDraw)
    }
}
