import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Decodes values that the scripts wrote, into the form that `causeway inspect` shows. Also refuses values that are cut
/// off or have a wrong byte.
@Suite(.serialized, .ownThread) struct InspectionTests {
    private static let nowMilliseconds: Int64 = 1_760_000_400_000
    private let token = OwnedToken(token: Array("0af7".utf8), environment: .sandbox, registeredAtMilliseconds: 5)
    private let pace = Policy.Pace(
        spacingMilliseconds: 1_000,
        throttledSpacingMillisecondsMax: 60_000,
        throttleRecoveryMilliseconds: 60_000,
        budget: .filling(intervalMilliseconds: 10_000, pushes: 3, reserved: 1),
        frequentBudget: .filling(intervalMilliseconds: 1_000, pushes: 5, reserved: 1)
    )

    private func makeCommand(_ timestamp: UInt64, _ event: Event = .update, alert: Bool = false) -> Operation {
        .command(
            event: event,
            version: .at(timestamp, 7),
            digest: timestamp,
            pace: pace,
            options: AdmissionOptions(requestsHighPriority: true, mayUseReserve: alert, hasAlert: alert),
            registration: nil
        )
    }

    private func readFields(_ comparison: ScriptComparison) -> [(field: [UInt8], value: [UInt8])] {
        comparison.server.hash(comparison.key.text).map { (field: Array($0.key.utf8), value: $0.value) }
    }

    private func readValue(_ comparison: ScriptComparison) -> [UInt8] {
        comparison.server.value(comparison.key.text)
    }

    @Test func `An activity's whole life is shown`() throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.nowMilliseconds)
        func inspectActivity() throws -> ActivityInspection { try ActivityInspection(value: readValue(comparison)) }
        #expect(
            try inspectActivity().newestVersion == nil
                && inspectActivity().remainingBudget(pace, nowMilliseconds: Self.nowMilliseconds).remainingDrawCount
                    == 3
        )

        #expect(comparison.verdict(makeCommand(100, alert: true)) == .noToken)
        #expect(try inspectActivity().newestVersion == .init(version: .at(100, 7), isEnd: false, phase: .waiting))
        let hold = Operation.hold(attributesType: nil, version: .at(100, 7), command: [1, 0], hasAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(try inspectActivity().heldCommand == .init(version: .at(100, 7), command: [1, 0], hasAlert: true))
        #expect(try inspectActivity().lastPush == nil)

        let register = Operation.register(
            attributesType: nil,
            registration: token,
            allowsFrequentUpdates: true,
            shownVersion: nil
        )
        #expect(comparison.verdict(register) == .registered)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .send)
        var inspection = try inspectActivity()
        #expect(inspection.token == InspectedToken(token: token.token, environment: .sandbox))
        #expect(inspection.registeredAtMilliseconds == 5 && inspection.allowsFrequentUpdates)
        #expect(inspection.newestVersion?.phase == .sending && inspection.shownDigest == nil)
        #expect(inspection.lastPush == .init(timestamp: 100, sentAtMilliseconds: Self.nowMilliseconds))
        #expect(inspection.updatesUntilMilliseconds == Self.nowMilliseconds + 28_800_999)
        let budget = inspection.remainingBudget(pace, nowMilliseconds: Self.nowMilliseconds)
        #expect(budget.remainingDrawCount == 4 && budget.bucket == pace.frequentBudget)
        #expect(budget.fullAtMilliseconds == Self.nowMilliseconds + 1_000)
        #expect(
            inspection.remainingBudget(pace, nowMilliseconds: Self.nowMilliseconds + 1_000).fullAtMilliseconds == nil
        )

        comparison.settle(.throttle(version: .at(0), pace: pace))
        comparison.settle(Operation.settlement(version: .at(100, 7), outcome: .accepted, digest: .max - 1))
        inspection = try inspectActivity()
        #expect(
            inspection.newestVersion?.phase == .settled && inspection.shownDigest == (1 << 48) - 2
                && inspection.heldCommand == nil
        )
        #expect(inspection.spacingDoublingCount(pace, nowMilliseconds: Self.nowMilliseconds) == 1)
        #expect(
            inspection.spacingEndMilliseconds(pace, nowMilliseconds: Self.nowMilliseconds) == Self.nowMilliseconds
                + 2_000
        )
        #expect(inspection.spacingEndMilliseconds(pace, nowMilliseconds: Self.nowMilliseconds + 2_000) == nil)
        #expect(inspection.spacingDoublingCount(pace, nowMilliseconds: Self.nowMilliseconds + 60_000) == 0)

        comparison.advanceClock(3_000)
        #expect(comparison.verdict(makeCommand(99, .end)) == .send)
        comparison.settle(Operation.settlement(version: .at(99, 7), outcome: .notShown, digest: 0))
        #expect(try inspectActivity().newestVersion == .init(version: .at(99, 7), isEnd: true, phase: .notShown))
        #expect(comparison.verdict(.unregister(atMilliseconds: 9)) == .unregistered)
        #expect(try inspectActivity().token == nil && inspectActivity().registeredAtMilliseconds == 9)
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(.start(version: .at(200), claim: 1)) == .send)
        #expect(try inspectActivity().newestVersion?.phase == .startSending)
    }

    /// Before Redis lost its data, phones may have got the start's timestamp. Since then nothing was sent.
    @Test func `After a start that was read again, the last assigned timestamp is the start's`() throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(comparison.verdict(.recordStart(version: .at(200))) == .settled)
        let inspection = try ActivityInspection(value: readValue(comparison))
        #expect(inspection.lastAssignedTimestamp == 200)
        #expect(inspection.lastPush == nil)
    }

    @Test func `A device's tokens, the starts held for them and its budget are shown`() throws {
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: Self.nowMilliseconds)
        for (number, timestamp) in [(UInt8(1), UInt64(101)), (2, 100)] {
            let hold = Operation.hold(
                attributesType: "Game",
                activity: "match-\(number)",
                version: .at(timestamp),
                command: [number],
                hasAlert: true
            )
            #expect(comparison.verdict(hold) == .held)
        }
        #expect(
            comparison.verdict(.register(attributesType: "A:B", registration: token, shownVersion: nil)) == .registered
        )
        let lookUp = Operation.takeStartToken(attributesType: "A:B", startBudget: pace.budget, registration: nil)
        let drawIdentifier = comparison.perform(lookUp).drawIdentifier
        #expect(comparison.verdict(lookUp) == .tokenFound)
        comparison.refundStart(pace.budget, drawIdentifier: drawIdentifier)
        let device = try DeviceInspection(fields: readFields(comparison))
        #expect(device.attributesTypeStates.map(\.attributesType) == ["A:B", "Game"])
        #expect(
            device.attributesTypeStates[0].token?.token == token.token
                && device.attributesTypeStates[0].heldStarts.isEmpty
        )
        #expect(device.attributesTypeStates[1].token == nil)
        #expect(
            device.attributesTypeStates[1].heldStarts == [
                .init(activity: Array("match-2".utf8), version: .at(100), command: [2]),
                .init(activity: Array("match-1".utf8), version: .at(101), command: [1]),
            ]
        )
        #expect(device.remainingStartBudget(pace.budget, nowMilliseconds: Self.nowMilliseconds).remainingDrawCount == 2)
    }

    /// The value is cut off anywhere, or has a byte that cannot be right.
    @Test func `A damaged value is refused with the name of the damaged part`() throws {
        let comparison = try ScriptComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(comparison.verdict(.start(version: .at(99), claim: 1)) == .send)
        let register = Operation.register(
            attributesType: nil,
            registration: token,
            allowsFrequentUpdates: true,
            shownVersion: nil
        )
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .noToken)
        let hold = Operation.hold(attributesType: nil, version: .at(100, 7), command: [1], hasAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.verdict(register) == .registered)
        comparison.settle(.throttle(version: .at(0), pace: pace))
        let wholeValue = readValue(comparison)
        let parts = activityParts(wholeValue)
        let partNames = [
            ActivityPart.fixed, ActivityPart.token, ActivityPart.throttle, ActivityPart.start, ActivityPart.heldCommand,
        ]
        #expect(partNames.map { parts[$0]?.count } == [50, 2, 7, 27, 31])
        let partEnds = [(50, "record"), (52, "token"), (59, "limit"), (86, "start"), (117, "held")]
        for length in 1..<wholeValue.count {
            let part = partEnds.first { length < $0.0 }?.1 ?? ""
            #expect(throws: InspectionError(partName: part), "\(length) bytes") {
                try ActivityInspection(value: Array(wholeValue[..<length]))
            }
        }
        // Each case changes one byte: in the newest version's timestamp, the assigned timestamp, the newest version's
        // state, the token's form (`TokenForm`), or the token's length.
        for (position, byte, part) in [
            (24, 0xFF, "record"), (43, 0xFF, "record"), (13, 0x9A, "record"), (6, 127, "token"), (5, 0xFF, "token"),
        ] as [(Int, UInt8, String)] {
            var brokenValue = wholeValue
            brokenValue[position] = byte
            #expect(throws: InspectionError(partName: part)) { try ActivityInspection(value: brokenValue) }
        }
        // The state now says that the newest command is settled, but the value still has a held command. So the value
        // is invalid.
        var brokenValue = wholeValue
        brokenValue[StoredActivity.phaseByteOffset] = UInt8(ascii: "s")
        #expect(throws: InspectionError(partName: "held")) { try ActivityInspection(value: brokenValue) }
    }
}
