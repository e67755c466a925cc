import LiveActivity
import Numbers
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The scripts' rules about time: spacing, the budget of pushes with priority 10, an activity's life, a
/// device's starts.
@Suite(.serialized, .ownThread) struct PaceTests {
    private static let noon: Int64 = 1_760_000_400_000
    private static let hour: Int64 = 3_600_000

    private func comparison(_ key: TestKey = .activity("match-17")) throws -> ScriptComparison {
        try ScriptComparison(key, nowMilliseconds: Self.noon)
    }

    /// The usual budget has three pushes and gains one every ten seconds. The budget for frequent updates has
    /// five pushes and gains one every second. Each budget keeps one push in reserve.
    private func pace(spacing: Int64 = 0) -> Policy.Pace {
        Policy.Pace(
            spacingMilliseconds: spacing,
            throttledSpacingMillisecondsMax: 5_000,
            throttleRecoveryMilliseconds: 60_000,
            budget: .filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 1),
            frequentBudget: .filling(intervalMilliseconds: 1_000, pushes: 5, reserved: 1)
        )
    }

    private func command(
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
            pace: pace(spacing: spacing),
            request: PushRequest(requestsHighPriority: high, mayUseReserve: reserve, carriesAlert: false),
            registration: token
        )
    }

    private let token = OwnedToken(token: [1, 2, 3], environment: .sandbox, registeredAtMilliseconds: 5)

    private func register(frequentUpdates: Bool, at: Int64 = 6) -> Operation {
        var token = token
        token.registeredAtMilliseconds = at
        return .register(attributesType: nil, registration: token, frequentUpdates: frequentUpdates, shows: nil)
    }

    private func limit(_ timestamp: UInt64, spacing: Int64) -> Operation {
        Operation.throttle(version: .at(timestamp), pace: pace(spacing: spacing))
    }

    // MARK: - Spacing

    @Test func `Two pushes are a spacing apart, to the millisecond`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(100, spacing: 1_000, token: token)) == .send)
        comparison.advanceClock(1)
        #expect(comparison.admit(command(101, spacing: 1_000)).waitMilliseconds == 999)
        comparison.advanceClock(998)
        #expect(comparison.admit(command(101, spacing: 1_000)).waitMilliseconds == 1)
        comparison.advanceClock(1)
        #expect(comparison.verdict(command(101, spacing: 1_000)) == .send)
    }

    @Test func `A clock that was set back does not delay pushes`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(100, spacing: 1_000, token: token)) == .send)
        comparison.settle(limit(100, spacing: 1_000))
        comparison.advanceClock(-60_000)
        #expect(comparison.verdict(command(101, spacing: 1_000)) == .send)
        #expect(comparison.admit(command(102, spacing: 1_000)).waitMilliseconds == 1_000)
        comparison.settle(limit(101, spacing: 1_000))
        #expect(comparison.admit(command(102, spacing: 1_000)).waitMilliseconds == 2_000)
    }

    @Test func `Each 429 doubles the spacing, up to a limit, and each minute without a 429 undoes a doubling`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(100, spacing: 1_000, token: token)) == .send)
        for (number, spacing) in [2_000, 4_000, 5_000, 5_000].enumerated() {
            comparison.settle(limit(100 + UInt64(number), spacing: 1_000))
            // The same 429 is reported twice, because the reply to the first report was lost.
            comparison.advanceClock(1)
            comparison.settle(limit(100 + UInt64(number), spacing: 1_000))
            let next = command(101 + UInt64(number), spacing: 1_000)
            #expect(comparison.admit(next).waitMilliseconds == Int64(spacing) - 1)
            comparison.advanceClock(Int64(spacing) - 1)
            #expect(comparison.verdict(next) == .send)
        }
        // The first three 429 doubled the spacing up to its limit. The fourth one only makes the spacing last
        // for another minute.
        comparison.advanceClock(60_000 - 5_000)
        #expect(comparison.verdict(command(110, spacing: 1_000)) == .send)
        #expect(comparison.admit(command(111, spacing: 1_000)).waitMilliseconds == 4_000)
        comparison.advanceClock(60_000)
        #expect(comparison.verdict(command(111, spacing: 1_000)) == .send)
        #expect(comparison.admit(command(112, spacing: 1_000)).waitMilliseconds == 2_000)
        comparison.advanceClock(60_000)
        #expect(comparison.verdict(command(112, spacing: 1_000)) == .send)
        #expect(comparison.admit(command(113, spacing: 1_000)).waitMilliseconds == 1_000)
    }

    @Test func `A 429 changes only the spacing`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(100, high: true, token: token)) == .send)
        let before = comparison.server.hash(comparison.key.text)
        comparison.settle(limit(100, spacing: 0))
        var after = comparison.server.hash(comparison.key.text)
        #expect(after.removeValue(forKey: "l") != nil && before["l"] == nil)
        // The value has a flag that says that it has a 429. The test removes this flag before the comparison.
        after["r"]?[StoredRecord.kindOffset] &-= StoredRecord.Flag.limited
        #expect(after == before)
        // A 429 of an unknown activity stores nothing.
        comparison.settle(limit(100, spacing: 0), .activity("other"))
        #expect(comparison.server.hash(TestKey.activity("other").text).isEmpty)
    }

    // MARK: - The budget of pushes with priority 10

    @Test func `Pushes of priority 10 draw down to the reserve, and a push that finds none left is demoted`() throws {
        let comparison = try comparison()
        var replies = [comparison.admit(command(100, high: true, token: token))]
        for timestamp in 101...102 as ClosedRange<UInt64> {
            replies.append(comparison.admit(command(timestamp, high: true)))
        }
        #expect(replies.map(\.priority) == [10, 10, 5])
        #expect(replies.map(\.isDemoted) == [false, false, true])
        #expect(replies.map(\.budgetLeft) == [2, 1, 1])
        let alert = comparison.admit(command(103, high: true, reserve: true))
        #expect(alert.priority == 10 && alert.budgetLeft == 0)
        let late = comparison.admit(command(104, .end, high: true, reserve: true))
        #expect(late.verdict == .send && late.priority == 5 && late.isDemoted)
    }

    @Test func `Priority 5 draws nothing, and reports what is left`() throws {
        let comparison = try comparison()
        #expect(comparison.admit(command(100, high: true, token: token)).budgetLeft == 2)
        for timestamp in 101...110 as ClosedRange<UInt64> {
            let reply = comparison.admit(command(timestamp, reserve: true))
            #expect(reply.priority == 5 && !reply.isDemoted && reply.budgetLeft == 2)
        }
    }

    @Test func `The bucket gains a push each interval, to the millisecond, up to its size`() throws {
        let comparison = try comparison()
        for timestamp in 100...102 as ClosedRange<UInt64> {
            #expect(comparison.admit(command(timestamp, high: true, reserve: true, token: token)).priority == 10)
        }
        comparison.advanceClock(9_999)
        #expect(comparison.admit(command(103, high: true, reserve: true)).isDemoted)
        comparison.advanceClock(1)
        #expect(comparison.admit(command(104, high: true, reserve: true)).priority == 10)
        comparison.advanceClock(Self.hour)
        #expect(comparison.admit(command(105, high: true)).budgetLeft == 2)
    }

    @Test func `Frequent updates have a larger bucket, and the stored number stays the same when they are switched`()
        throws
    {
        let comparison = try comparison()
        #expect(comparison.verdict(register(frequentUpdates: true)) == .registered)
        #expect(comparison.admit(command(100, high: true)).budgetLeft == 4)
        // A token that comes with a command does not say whether the app allows frequent updates.
        #expect(comparison.admit(command(101, high: true, token: token)).budgetLeft == 3)
        // Two pushes are missing from the larger budget, which gains them back in two seconds. The smaller
        // budget needs ten seconds for each push, so only one push is missing from it.
        #expect(comparison.verdict(register(frequentUpdates: false)) == .registered)
        #expect(comparison.admit(command(102)).budgetLeft == 2)
        // A stale registration does not change the budget.
        #expect(comparison.verdict(register(frequentUpdates: true, at: 4)) == .stale)
        #expect(comparison.admit(command(103)).budgetLeft == 2)
    }

    @Test func `A version draws once, for any number of admissions`() throws {
        let comparison = try comparison()
        #expect(comparison.admit(command(100, high: true, token: token)).budgetLeft == 2)
        for _ in 0..<3 {
            let again = comparison.admit(command(100, high: true))
            #expect(again.priority == 10 && again.budgetLeft == 2)
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
        #expect(comparison.verdict(register(frequentUpdates: false, at: 9)) == .registered)
        #expect(comparison.admit(command(100, high: true)).budgetLeft == 2)
        #expect(comparison.admit(command(101, high: true)).budgetLeft == 1)
        // A command whose priority was lowered for lack of budget draws from the budget when it is admitted
        // again and the budget suffices.
        #expect(comparison.admit(command(102, high: true)).isDemoted)
        comparison.advanceClock(10_000)
        #expect(comparison.admit(command(102, high: true)).priority == 10)
    }

    @Test func `A start fills the bucket, and resets the spacing`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(register(frequentUpdates: true)) == .registered)
        #expect(comparison.admit(command(100, .end, high: true)).budgetLeft == 4)
        comparison.settle(limit(100, spacing: 1_000))
        comparison.settle(Operation.settlement(version: .at(100), outcome: .accepted, digest: 100))
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .send)
        comparison.advanceClock(1_000)
        // In the new life no registration has said that the app allows frequent updates, so the activity has
        // the usual budget.
        let newer = OwnedToken(token: [4], environment: .sandbox, registeredAtMilliseconds: 9)
        #expect(comparison.admit(command(102, spacing: 1_000, high: true, token: newer)).budgetLeft == 2)
        // The same start comes again. It does not fill the budget again.
        let hash = comparison.server.hash(comparison.key.text)
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .superseded)
        #expect(comparison.server.hash(comparison.key.text) == hash)
    }

    // MARK: - An activity's life

    @Test(arguments: [false, true])
    func `Eight hours after its birth an activity accepts only its end`(isStarted: Bool) throws {
        let comparison = try comparison()
        if isStarted {
            #expect(comparison.verdict(.start(version: .at(100), claim: 1)) == .send)
        } else {
            // Without a start, the activity's life begins with its registration.
            #expect(comparison.verdict(register(frequentUpdates: false)) == .registered)
        }
        // Redis counts whole seconds: the second in which the eight hours end still belongs to the life.
        comparison.advanceClock(8 * Self.hour)
        #expect(comparison.verdict(command(101, token: token)) == .send)
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(command(102)) == .tooOld)
        #expect(comparison.verdict(command(101)) == .tooOld)
        #expect(comparison.verdict(command(100)) == .superseded)
        #expect(comparison.verdict(command(103, .end)) == .send)
        comparison.settle(Operation.settlement(version: .at(103), outcome: .accepted, digest: 0))
        #expect(comparison.verdict(.start(version: .at(104), claim: 2)) == .send)
        #expect(
            comparison.verdict(
                command(105, token: OwnedToken(token: [4], environment: .sandbox, registeredAtMilliseconds: 9))
            ) == .send
        )
    }

    // MARK: - Starts of a device

    @Test func `A look-up of the address draws a start, for all attributes types, and the draw may be returned`() throws
    {
        let comparison = try comparison(.device("phone"))
        let budget = Policy.Bucket.filling(intervalMilliseconds: 10_000, pushes: 2, reserved: 0)
        func address(_ type: String) -> OwnedReply {
            comparison.admit(.lookUpToken(attributesType: type, startBudget: budget, registration: nil))
        }
        #expect(address("Game").verdict == .noToken)
        comparison.refundStart(budget, draw: 0)
        var draws: [Int64] = []
        for type in ["Game", "Race"] {
            #expect(comparison.verdict(.register(attributesType: type, registration: token, shows: nil)) == .registered)
            let reply = address(type)
            #expect(reply.registration == token)
            draws.append(reply.draw)
        }
        comparison.advanceClock(100)
        #expect(address("Game").waitMilliseconds == 9_900)
        comparison.refundStart(budget, draw: draws[1])
        #expect(address("Game").verdict == .tokenFound)
        #expect(address("Race").waitMilliseconds == 9_900)
        comparison.advanceClock(9_900)
        #expect(address("Race").verdict == .tokenFound)
        #expect(address("Race").verdict == .wait)
        // The token that a start brings is stored even if the start must wait.
        let newer = OwnedToken(token: [7], environment: .production, registeredAtMilliseconds: 50)
        #expect(
            comparison.verdict(.lookUpToken(attributesType: "Race", startBudget: budget, registration: newer)) == .wait
        )
        comparison.advanceClock(10_000)
        #expect(address("Race").registration == newer)
    }

    /// This test runs only the model. `DifferentialTests` compares the scripts with the model.
    @Test func `Draws may be returned in any order, and the bucket is never fuller than without them`() {
        var random = SplitMix64(seed: 7)
        for _ in 0..<20_000 {
            let interval = Int64(1 + random.below(50))
            let budget = Policy.Bucket.filling(intervalMilliseconds: interval, pushes: 10_000, reserved: 0)
            var model = StoreModel(nowMilliseconds: 1_760_000_000_000)
            let phone = TestKey.device("phone")
            _ = model.perform(phone.call(.register(attributesType: "Game", registration: token, shows: nil), tag: 0))
            var draws: [(at: Int64, name: Int64, stays: Bool)] = []
            for _ in 0..<2 + random.below(12) {
                model.nowMilliseconds += [0, 0, 1, Int64(random.below(Int(interval) * 3))][random.below(4)]
                let kept = draws.indices.filter { draws[$0].stays }
                if !kept.isEmpty, random.below(2) == 0 {
                    let place = random.pick(kept)
                    draws[place].stays = false
                    let call = Operation.refundStart(startBudget: budget, draw: draws[place].name)
                    _ = model.perform(phone.call(call, tag: 0))
                } else {
                    let call = Operation.lookUpToken(attributesType: "Game", startBudget: budget, registration: nil)
                    draws.append((model.nowMilliseconds, model.perform(phone.call(call, tag: 0)).draw, true))
                }
                let fullAt = draws.filter(\.stays).reduce(Int64(0)) { max($0, $1.at) + interval }
                let stands = max(model.devices[phone.text]?.fullAtMilliseconds ?? 0, model.nowMilliseconds)
                guard stands >= fullAt else {
                    Issue.record("full at \(stands), not \(fullAt): \(draws)")
                    return
                }
            }
        }
    }

    @Test func `A return gives back neither what was refilled since, nor what others have returned`() throws {
        let comparison = try comparison(.device("phone"))
        let budget = Policy.Bucket.filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 0)
        func address() -> OwnedReply {
            comparison.admit(.lookUpToken(attributesType: "Game", startBudget: budget, registration: nil))
        }
        #expect(comparison.verdict(.register(attributesType: "Game", registration: token, shows: nil)) == .registered)
        // When all draws are refunded at once, the budget is full again.
        let all = [address().draw, address().draw, address().draw]
        #expect(address().verdict == .wait)
        for draw in all { comparison.refundStart(budget, draw: draw) }
        let first = address().draw
        let second = address().draw
        comparison.advanceClock(9_000)
        comparison.refundStart(budget, draw: first)
        // The budget had regained nine tenths of the first push when the first draw was refunded. The refund
        // gives back the last tenth, so the second push comes back one second earlier.
        #expect(
            comparison.model.devices[comparison.key.text]?.fullAtMilliseconds == comparison.model.nowMilliseconds
                + 10_000
        )
        comparison.advanceClock(9_000)
        let third = address().draw
        comparison.advanceClock(1_500)
        // The second push came back half a second ago, so the refund of its draw changes nothing.
        comparison.refundStart(budget, draw: second)
        #expect(
            comparison.model.devices[comparison.key.text]?.fullAtMilliseconds == comparison.model.nowMilliseconds
                + 9_500
        )
        comparison.refundStart(budget, draw: third)
        #expect(address().draw > third)
    }
}
