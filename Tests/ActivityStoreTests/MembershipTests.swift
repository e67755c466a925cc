import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore

/// Tests which audiences an activity or a device is in, and which ones it has left. Every call goes to Redis and to
/// `StoreModel`, and both must give the same reply. (R27)
@Suite(.serialized, .ownThread) struct MembershipTests {
    private static let device = TestKey.device("phone-1")

    private func encodeAudiences(_ audiences: UInt64...) -> [UInt8] { bytes(audiences) }

    private func bytes(_ audiences: [UInt64]) -> [UInt8] {
        audiences.flatMap { digest in withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
    }

    private func encodeDepartures(_ audiences: UInt64..., at milliseconds: Int64) -> [UInt8] {
        (0..<6).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) } + bytes(audiences)
    }

    private func makeToken(_ text: String, at: Int64) -> OwnedToken {
        OwnedToken(token: Array(text.utf8), environment: .production, registeredAtMilliseconds: at)
    }

    private func makeRegistration(_ text: String = "aa", at: Int64 = 100, in audiences: [UInt8]?, type: String? = nil)
        -> Operation
    {
        .register(attributesType: type, registration: makeToken(text, at: at), shownVersion: nil, audiences: audiences)
    }

    private func makeCommand(_ event: Event, _ timestamp: Int64, digest: UInt64 = 1, alert: Bool = false) -> Operation {
        .command(
            event: event,
            version: .at(timestamp),
            digest: digest,
            pace: .spaced(0),
            options: AdmissionOptions(requestsHighPriority: false, mayUseReserve: false, hasAlert: alert),
            registration: nil
        )
    }

    private func makeSettlement(_ timestamp: Int64, _ outcome: Settlement = .accepted, dead: String? = nil) -> Operation
    {
        .settlement(version: .at(timestamp), outcome: outcome, digest: 1, retirement: dead.map(makeRetirement))
    }

    private func makeRetirement(_ text: String) -> TokenRetirement<[UInt8]> {
        TokenRetirement(token: Array(text.utf8), environment: .production, invalidAtMilliseconds: nil)
    }

    private func makeConfirmation(_ milliseconds: Int64) -> Operation {
        .confirmDepartures(atMilliseconds: milliseconds)
    }

    // MARK: - Activities

    @Test func `An audience that a registration no longer names is left, until the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.perform(makeRegistration(in: encodeAudiences(1, 2))).departures == nil)
        let leaveReply = comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2, 3)))
        #expect(leaveReply.verdict == .registered && leaveReply.departures == encodeDepartures(1, at: 200))
        // A worker died, and the next worker reads the registration again. The reply names the left audience
        // again.
        #expect(
            comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2, 3))).departures
                == encodeDepartures(1, at: 200)
        )
        // An older registration joins no audience. Its reply names the audiences that the activity has left
        // before.
        let staleReply = comparison.perform(makeRegistration(at: 150, in: encodeAudiences(4)))
        #expect(staleReply.verdict == .stale && staleReply.departures == encodeDepartures(1, at: 200))
        #expect(comparison.perform(makeRegistration(at: 150, in: nil)).departures == nil)
        comparison.settle(makeConfirmation(199))
        #expect(
            comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2, 3))).departures
                == encodeDepartures(1, at: 200)
        )
        comparison.settle(makeConfirmation(200))
        #expect(comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2, 3))).departures == nil)
        #expect(comparison.perform(makeRegistration(at: 300, in: [])).departures == encodeDepartures(2, 3, at: 300))
    }

    @Test func `An audience that is joined again is not left`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        #expect(
            comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2))).departures
                == encodeDepartures(1, at: 200)
        )
        #expect(
            comparison.perform(makeRegistration(at: 300, in: encodeAudiences(1))).departures
                == encodeDepartures(2, at: 300)
        )
        // The confirmation of the first leave comes late. It must not confirm the second leave.
        comparison.settle(makeConfirmation(200))
        #expect(comparison.perform(makeRegistration(at: 300, in: nil)).verdict == .registered)
        #expect(comparison.perform(makeCommand(.update, 100)).departures == encodeDepartures(2, at: 300))
    }

    @Test func `A held command comes back when the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        comparison.perform(.unregister(atMilliseconds: 150))
        comparison.settle(makeConfirmation(150))
        #expect(comparison.verdict(makeCommand(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: .at(100), command: [7])) == .held)
        #expect(comparison.perform(makeRegistration("bb", at: 200, in: encodeAudiences(2))).heldCommand == [7])
        let leaveReply = comparison.perform(makeRegistration("bb", at: 300, in: []))
        #expect(leaveReply.heldCommand == nil && leaveReply.departures == encodeDepartures(2, at: 300))
        #expect(comparison.perform(makeRegistration("bb", at: 300, in: nil)).heldCommand == [7])
    }

    @Test func `A registration that is made again does not undo what came in the same millisecond`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        #expect(
            comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2))).departures
                == encodeDepartures(1, at: 200)
        )
        #expect(comparison.verdict(.unregister(atMilliseconds: 200)) == .unregistered)
        comparison.settle(makeConfirmation(200))
        #expect(comparison.verdict(makeRegistration(at: 200, in: nil)) == .stale)
        #expect(comparison.verdict(makeCommand(.update, 100)) == .noToken)
        // The producer registers another token in the same millisecond, 200.
        #expect(comparison.verdict(makeRegistration("bb", at: 200, in: encodeAudiences(3))) == .registered)
        #expect(comparison.verdict(makeRegistration(at: 200, in: nil)) == .stale)
        #expect(comparison.verdict(makeRegistration("bb", at: 200, in: nil)) == .registered)
        #expect(comparison.perform(makeCommand(.update, 100)).registration == makeToken("bb", at: 200))
    }

    @Test func `An admission waits until the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1, 2)))
        #expect(comparison.perform(.unregister(atMilliseconds: 150)).departures == encodeDepartures(1, 2, at: 150))
        #expect(comparison.perform(.unregister(atMilliseconds: 120)).departures == encodeDepartures(1, 2, at: 150))
        for event in [Event.update, .end] {
            let reply = comparison.perform(makeCommand(event, 100))
            #expect(reply.verdict == .departures && reply.departures == encodeDepartures(1, 2, at: 150))
        }
        comparison.settle(makeConfirmation(150))
        #expect(comparison.verdict(makeCommand(.update, 100)) == .noToken)
    }

    @Test func `A member's update is sent even if APNs has accepted the same state before`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        for timestamp in Int64(100)...102 {
            let sendReply = comparison.perform(makeCommand(.update, timestamp))
            #expect(sendReply.verdict == .send && sendReply.registration == makeToken("aa", at: 100))
            comparison.settle(makeSettlement(timestamp))
        }
        comparison.perform(makeRegistration(at: 200, in: []))
        comparison.settle(makeConfirmation(200))
        #expect(comparison.verdict(makeCommand(.update, 103)) == .send, "the phone may show an audience's push instead")
        comparison.settle(makeSettlement(103))
        #expect(comparison.verdict(makeCommand(.update, 104)) == .unchanged)
    }

    @Test func `After an accepted end, the activity is in no audience, and its old registration joins none`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        #expect(comparison.verdict(makeCommand(.update, 100)) == .send)
        #expect(comparison.perform(makeSettlement(100)).departures == nil)
        #expect(comparison.verdict(makeCommand(.end, 101)) == .send)
        #expect(comparison.perform(makeSettlement(101, .notShown)).departures == nil)
        #expect(comparison.verdict(makeCommand(.end, 102)) == .send)
        for _ in 0..<2 { #expect(comparison.perform(makeSettlement(102)).departures == encodeDepartures(1, at: 101)) }
        let repeatedReply = comparison.perform(makeRegistration(in: encodeAudiences(1)))
        #expect(repeatedReply.verdict == .stale && repeatedReply.departures == encodeDepartures(1, at: 101))
        #expect(comparison.verdict(makeCommand(.end, 102)) == .departures)
        comparison.settle(makeConfirmation(101))
        #expect(comparison.verdict(makeCommand(.end, 102)) == .duplicate)
    }

    /// A push of an audience has no version of the activity. So the retirement has the version 0.
    @Test func `An activity whose token an audience's push found dead leaves its audiences`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1, 2)))
        let noVersion = Version.zero
        #expect(comparison.perform(.retire(version: noVersion, makeRetirement("bb"))).departures == nil)
        let retireReply = comparison.perform(.retire(version: noVersion, makeRetirement("aa")))
        #expect(retireReply.hasRetiredToken && retireReply.departures == encodeDepartures(1, 2, at: 101))
        // The reply to the retirement was lost, so the retirement is repeated. The second reply names the same
        // audiences.
        let repeatedReply = comparison.perform(.retire(version: noVersion, makeRetirement("aa")))
        #expect(!repeatedReply.hasRetiredToken && repeatedReply.departures == encodeDepartures(1, 2, at: 101))
        #expect(comparison.verdict(makeRegistration(in: encodeAudiences(1, 2))) == .stale)
        #expect(
            comparison.perform(makeRegistration("bb", at: 200, in: encodeAudiences(1))).departures
                == encodeDepartures(2, at: 200)
        )
        // A retirement for an unknown activity stores nothing.
        let unknownKey = TestKey.activity("unknown")
        #expect(comparison.perform(.retire(version: noVersion, makeRetirement("aa")), unknownKey).departures == nil)
        #expect(comparison.server.command("EXISTS", unknownKey.text) == ["0"])
    }

    @Test func `A 429 and a start do not change the audiences`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(makeRegistration(in: encodeAudiences(1)))
        comparison.perform(makeCommand(.update, 100))
        #expect(comparison.perform(.throttle(version: .at(100), pace: .spaced(1_000))).departures == nil)
        #expect(comparison.verdict(.start(version: .at(200), claim: 7)) == .send)
        #expect(comparison.perform(makeSettlement(200)).departures == nil)
        #expect(
            comparison.perform(makeRegistration("bb", at: 200, in: encodeAudiences(2))).departures
                == encodeDepartures(1, at: 200)
        )
        #expect(comparison.perform(.throttle(version: .at(100), pace: .spaced(1_000))).departures == nil)
    }

    /// Besides its audiences, the activity's value has all parts that the name of this test lists.
    @Test func `Audiences are stored together with an accepted alert, a dead token, a 429, a start and a held command`()
        throws
    {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(.start(version: .at(50), claim: 7)) == .send)
        comparison.perform(makeRegistration("cc", in: encodeAudiences(1)))
        #expect(comparison.verdict(makeCommand(.update, 100, alert: true)) == .send)
        comparison.settle(
            .settlement(
                version: .at(100),
                outcome: .accepted,
                digest: 1,
                retirement: makeRetirement("cc"),
                alert: .at(100)
            )
        )
        comparison.settle(makeConfirmation(101))
        comparison.perform(makeRegistration("dd", at: 200, in: encodeAudiences(1, 2, 3, 4, 5, 6, 7, 8)))
        comparison.settle(.throttle(version: .at(100), pace: .spaced(0)))
        comparison.perform(.unregister(atMilliseconds: 300))
        comparison.settle(makeConfirmation(300))
        comparison.perform(makeRegistration("ee", at: 400, in: encodeAudiences(1, 2)))
        comparison.settle(.retire(version: .at(100), makeRetirement("ee")))
        comparison.settle(makeConfirmation(401))
        #expect(comparison.verdict(makeCommand(.update, 110, alert: true)) == .noToken)
        let hold = Operation.hold(attributesType: nil, version: .at(110), command: [7], hasAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.perform(makeRegistration("ff", at: 500, in: encodeAudiences(3))).heldCommand == [7])
        #expect(comparison.perform(makeCommand(.update, 110, alert: true)).registration == makeToken("ff", at: 500))
        let parts = comparison.server.hash(comparison.key.text)
        let allPartNames: Set = [
            ActivityPart.fixed, ActivityPart.token, ActivityPart.acceptedAlert, ActivityPart.audiences,
            ActivityPart.retiredToken, ActivityPart.throttle, ActivityPart.start, ActivityPart.heldCommand,
        ]
        #expect(Set(parts.keys) == allPartNames)
        let inspection = try ActivityInspection(value: comparison.server.value(comparison.key.text))
        #expect(inspection.audiences == [AudienceDigest(value: 3)] && inspection.formerAudiences.isEmpty)
        #expect(inspection.heldCommand?.command == [7] && inspection.acceptedAlertVersion == .at(100))
        #expect(ActivityState(inspection).audiences.currentDigests == [3])
        #expect(comparison.perform(makeSettlement(110)).departures == nil)
    }

    @Test func `A registration that would leave too many audiences must come again`() throws {
        let comparison = try ScriptComparison()
        var formerAudiences: [UInt64] = []
        for round in UInt64(0)..<3 {
            let audiences = (0..<8).map { round * 8 + $0 }
            #expect(comparison.verdict(makeRegistration(at: 100 + Int64(round), in: bytes(audiences))) == .registered)
            if round < 2 { formerAudiences += audiences }
        }
        let fullReply = comparison.perform(makeRegistration(at: 110, in: []))
        #expect(fullReply.verdict == .full && fullReply.departures?.count == 6 + 16 * 8, "a worker can notify these")
        #expect(comparison.perform(.unregister(atMilliseconds: 110)).departures?.count == 6 + 24 * 8)
        comparison.settle(makeConfirmation(110))
        #expect(comparison.perform(makeRegistration(at: 120, in: encodeAudiences(1))).departures == nil)
    }

    // MARK: - Devices

    @Test func `A device is in the audiences that its registrations of all types name`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.perform(makeRegistration(in: encodeAudiences(1, 2), type: "Game"))
        comparison.perform(makeRegistration("bb", in: encodeAudiences(2, 3), type: "Race"))
        #expect(
            comparison.perform(makeRegistration(at: 200, in: [], type: "Game")).departures
                == encodeDepartures(1, at: 200)
        )
        let staleReply = comparison.perform(makeRegistration(at: 150, in: encodeAudiences(9), type: "Game"))
        #expect(staleReply.verdict == .stale && staleReply.departures == encodeDepartures(1, at: 200))
        #expect(
            comparison.perform(makeRegistration("bb", at: 200, in: encodeAudiences(3), type: "Race")).departures
                == encodeDepartures(1, 2, at: 201)
        )
        comparison.settle(makeConfirmation(200))
        #expect(
            comparison.perform(makeRegistration(at: 300, in: encodeAudiences(1), type: "Game")).departures
                == encodeDepartures(2, at: 201)
        )
        comparison.settle(makeConfirmation(201))
        #expect(comparison.perform(makeRegistration(at: 300, in: encodeAudiences(1), type: "Game")).departures == nil)
        #expect(comparison.perform(.unregister(atMilliseconds: 250)).departures == encodeDepartures(3, at: 250))
        #expect(comparison.perform(.unregister(atMilliseconds: 400)).departures == encodeDepartures(3, 1, at: 400))
    }

    @Test func `A dead push-to-start token leaves the audiences that no other type names`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.perform(makeRegistration(in: encodeAudiences(1, 2), type: "Game"))
        comparison.perform(makeRegistration("bb", in: encodeAudiences(2), type: "Race"))
        let deadTokenSettlement = Operation.settlement(
            attributesType: "Game",
            version: .at(100),
            outcome: .notShown,
            digest: 0,
            retirement: makeRetirement("aa")
        )
        let reply = comparison.perform(deadTokenSettlement)
        #expect(reply.hasRetiredToken && reply.departures == encodeDepartures(1, at: 101))
        let repeatedReply = comparison.perform(deadTokenSettlement)
        #expect(!repeatedReply.hasRetiredToken && repeatedReply.departures == encodeDepartures(1, at: 101))
        comparison.settle(makeConfirmation(101))
        #expect(comparison.perform(deadTokenSettlement).departures == nil)
    }

    /// The audience got the device with the later time. It would ignore an older departure.
    @Test func `A device leaves an audience after its latest registration, whichever token dies last`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.perform(makeRegistration("aa", at: 1_000, in: encodeAudiences(1), type: "Game"))
        comparison.perform(makeRegistration("bb", at: 500, in: encodeAudiences(1), type: "Race"))
        for (type, token) in [("Game", "aa"), ("Race", "bb")] {
            let reply = comparison.perform(
                Operation.settlement(
                    attributesType: type,
                    version: .at(100),
                    outcome: .notShown,
                    digest: 0,
                    retirement: makeRetirement(token)
                )
            )
            #expect(reply.hasRetiredToken)
            #expect(reply.departures == (type == "Game" ? nil : encodeDepartures(1, at: 1_002)))
        }
    }

    @Test func `A held start comes back when the leave is confirmed`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.perform(makeRegistration(in: encodeAudiences(1), type: "Game"))
        comparison.perform(.unregister(atMilliseconds: 150))
        #expect(comparison.verdict(.hold(attributesType: "Game", version: .at(100), command: [7])) == .held)
        let leaveReply = comparison.perform(makeRegistration(at: 200, in: encodeAudiences(2), type: "Game"))
        #expect(
            leaveReply.verdict == .registered && leaveReply.heldCommand == nil
                && leaveReply.departures == encodeDepartures(1, at: 150)
        )
        #expect(comparison.perform(makeRegistration(at: 200, in: nil, type: "Game")).heldCommand == [7])
    }

    @Test func `A device's registration that is made again does not undo what came in the same millisecond`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.perform(makeRegistration(at: 200, in: encodeAudiences(1), type: "Game"))
        #expect(comparison.verdict(.unregister(atMilliseconds: 200)) == .unregistered)
        #expect(comparison.verdict(makeRegistration(at: 200, in: nil, type: "Game")) == .stale)
        #expect(comparison.verdict(.hold(attributesType: "Game", version: .at(100), command: [7])) == .held)
        comparison.settle(makeConfirmation(200))
        // Another token is registered in the same millisecond, 200. When the first registration is made again, it does
        // not replace this token, and the held start goes to this token.
        #expect(comparison.perform(makeRegistration("bb", at: 200, in: [], type: "Game")).heldCommand == [7])
        #expect(comparison.perform(makeRegistration(at: 200, in: nil, type: "Game")).heldCommand == [7])
        #expect(
            comparison.perform(.takeStartToken(attributesType: "Game", registration: nil)).registration
                == makeToken("bb", at: 200)
        )
    }
}
