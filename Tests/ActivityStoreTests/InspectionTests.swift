import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Decodes values that the scripts wrote, into the form that `causeway inspect` shows. Also refuses values that are cut
/// off or have a wrong byte.
@Suite(.serialized, .ownThread) struct InspectionTests {
    private static let now: Int64 = 1_760_000_400_000
    private let token = OwnedToken(token: Array("0af7".utf8), environment: .sandbox, registeredAtMilliseconds: 5)
    private let pace = Policy.Pace(
        spacingMilliseconds: 1_000,
        throttledSpacingMillisecondsMax: 60_000,
        throttleRecoveryMilliseconds: 60_000,
        budget: .filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 1),
        frequentBudget: .filling(intervalMilliseconds: 1_000, pushes: 5, reserved: 1)
    )

    private func command(_ timestamp: UInt64, _ event: Event = .update, alert: Bool = false) -> Operation {
        .command(
            event: event,
            version: .at(timestamp, 7),
            digest: timestamp,
            pace: pace,
            request: PushRequest(requestsHighPriority: true, mayUseReserve: alert, carriesAlert: alert),
            registration: nil
        )
    }

    private func fields(_ comparison: ScriptComparison) -> [(field: [UInt8], value: [UInt8])] {
        comparison.server.hash(comparison.key.text).map { (field: Array($0.key.utf8), value: $0.value) }
    }

    private func value(_ comparison: ScriptComparison) -> [UInt8] {
        comparison.server.value(comparison.key.text)
    }

    @Test func `An activity's whole life is shown`() throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.now)
        func activity() throws -> ActivityInspection { try ActivityInspection(value: value(comparison)) }
        #expect(try activity().newest == nil && activity().budget(pace, nowMilliseconds: Self.now).drawsLeft == 3)

        #expect(comparison.verdict(command(100, alert: true)) == .noToken)
        #expect(try activity().newest == .init(version: .at(100, 7), isEnd: false, state: .waiting))
        let hold = Operation.hold(attributesType: nil, version: .at(100, 7), command: [1, 0], carriesAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(try activity().heldCommand == .init(version: .at(100, 7), command: [1, 0], carriesAlert: true))
        #expect(try activity().lastPush == nil)

        let register = Operation.register(attributesType: nil, registration: token, frequentUpdates: true, shows: nil)
        #expect(comparison.verdict(register) == .registered)
        #expect(comparison.verdict(command(100, alert: true)) == .send)
        var shown = try activity()
        #expect(shown.token == InspectedToken(token: token.token, environment: .sandbox))
        #expect(shown.registeredAtMilliseconds == 5 && shown.allowsFrequentUpdates)
        #expect(shown.newest?.state == .sending && shown.shownDigest == nil)
        #expect(shown.lastPush == .init(timestamp: 100, atMilliseconds: Self.now))
        #expect(shown.updatesUntilMilliseconds == Self.now + 28_800_999)
        let budget = shown.budget(pace, nowMilliseconds: Self.now)
        #expect(budget.drawsLeft == 4 && budget.bucket == pace.frequentBudget)
        #expect(budget.fullAtMilliseconds == Self.now + 1_000)
        #expect(shown.budget(pace, nowMilliseconds: Self.now + 1_000).fullAtMilliseconds == nil)

        comparison.settle(.throttle(version: .at(0), pace: pace))
        comparison.settle(Operation.settlement(version: .at(100, 7), outcome: .accepted, digest: .max - 1))
        shown = try activity()
        #expect(shown.newest?.state == .settled && shown.shownDigest == (1 << 48) - 2 && shown.heldCommand == nil)
        #expect(shown.spacingDoublings(pace, nowMilliseconds: Self.now) == 1)
        #expect(shown.waitUntilMilliseconds(pace, nowMilliseconds: Self.now) == Self.now + 2_000)
        #expect(shown.waitUntilMilliseconds(pace, nowMilliseconds: Self.now + 2_000) == nil)
        #expect(shown.spacingDoublings(pace, nowMilliseconds: Self.now + 60_000) == 0)

        comparison.advanceClock(3_000)
        #expect(comparison.verdict(command(99, .end)) == .send)
        comparison.settle(Operation.settlement(version: .at(99, 7), outcome: .notShown, digest: 0))
        #expect(try activity().newest == .init(version: .at(99, 7), isEnd: true, state: .notShown))
        #expect(comparison.verdict(.unregister(atMilliseconds: 9)) == .unregistered)
        #expect(try activity().token == nil && activity().registeredAtMilliseconds == 9)
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(.start(version: .at(200), claim: 1)) == .send)
        #expect(try activity().newest?.state == .startSending)
    }

    @Test func `A device's tokens, the starts held for them and its budget are shown`() throws {
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: Self.now)
        for (number, timestamp) in [(UInt8(1), UInt64(101)), (2, 100)] {
            let hold = Operation.hold(
                attributesType: "Game",
                activity: "match-\(number)",
                version: .at(timestamp),
                command: [number],
                carriesAlert: true
            )
            #expect(comparison.verdict(hold) == .held)
        }
        #expect(comparison.verdict(.register(attributesType: "A:B", registration: token, shows: nil)) == .registered)
        let address = Operation.lookUpToken(attributesType: "A:B", startBudget: pace.budget, registration: nil)
        let draw = comparison.admit(address).draw
        #expect(comparison.verdict(address) == .tokenFound)
        comparison.refundStart(pace.budget, draw: draw)
        let device = try DeviceInspection(fields: fields(comparison))
        #expect(device.slots.map(\.attributesType) == ["A:B", "Game"])
        #expect(device.slots[0].token?.token == token.token && device.slots[0].heldStarts.isEmpty)
        #expect(device.slots[1].token == nil)
        #expect(
            device.slots[1].heldStarts == [
                .init(activity: Array("match-2".utf8), version: .at(100), command: [2]),
                .init(activity: Array("match-1".utf8), version: .at(101), command: [1]),
            ]
        )
        #expect(device.startBudget(pace.budget, nowMilliseconds: Self.now).drawsLeft == 2)
    }

    /// A value that is cut off anywhere, or has a byte that cannot be right, is refused with the name of the wrong
    /// part.
    @Test func `A foreign value is refused, with the wrong part`() throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.now)
        #expect(comparison.verdict(.start(version: .at(99), claim: 1)) == .send)
        let register = Operation.register(attributesType: nil, registration: token, frequentUpdates: true, shows: nil)
        #expect(comparison.verdict(command(100, alert: true)) == .noToken)
        let hold = Operation.hold(attributesType: nil, version: .at(100, 7), command: [1], carriesAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.verdict(register) == .registered)
        comparison.settle(.throttle(version: .at(0), pace: pace))
        let whole = value(comparison)
        let parts = activityParts(whole)
        #expect(["r", "t", "l", "b", "h"].map { parts[$0]?.count } == [50, 2, 7, 27, 31])
        let ends = [(50, "record"), (52, "token"), (59, "limit"), (86, "start"), (117, "held")]
        for length in 1..<whole.count {
            let part = ends.first { length < $0.0 }?.1 ?? ""
            #expect(throws: InspectionError(field: part), "\(length) bytes") {
                try ActivityInspection(value: Array(whole[..<length]))
            }
        }
        // Each case changes one byte: in the newest version's timestamp, the assigned timestamp, the newest version's
        // state, the token's form (`TokenForm`), or the token's length.
        for (position, byte, part) in [
            (24, 0xFF, "record"), (43, 0xFF, "record"), (13, 0x9A, "record"), (6, 127, "token"), (5, 0xFF, "token"),
        ] as [(Int, UInt8, String)] {
            var broken = whole
            broken[position] = byte
            #expect(throws: InspectionError(field: part)) { try ActivityInspection(value: broken) }
        }
        // The state now says that the newest command is settled, but the value still has a held command. So
        // the value is invalid.
        var broken = whole
        broken[StoredRecord.stateOffset] = UInt8(ascii: "s")
        #expect(throws: InspectionError(field: "held")) { try ActivityInspection(value: broken) }
    }
}
