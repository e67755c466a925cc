import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore

/// Tests which audiences an activity or a device is in, and which ones it has left. Each reply of the server
/// must be the model's. (R27)
@Suite(.serialized, .ownThread) struct MembershipTests {
    private static let device = TestKey.device("phone-1")

    private func list(_ audiences: UInt64...) -> [UInt8] { bytes(audiences) }

    private func bytes(_ audiences: [UInt64]) -> [UInt8] {
        audiences.flatMap { digest in withUnsafeBytes(of: digest.littleEndian) { Array($0) } }
    }

    private func departures(_ audiences: UInt64..., at milliseconds: Int64) -> [UInt8] {
        (0..<6).map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) } + bytes(audiences)
    }

    private func token(_ text: String, at: Int64) -> OwnedToken {
        OwnedToken(token: Array(text.utf8), environment: .production, registeredAtMilliseconds: at)
    }

    private func register(_ text: String = "aa", at: Int64 = 100, in audiences: [UInt8]?, type: String? = nil)
        -> Operation
    {
        .register(attributesType: type, registration: token(text, at: at), shows: nil, audiences: audiences)
    }

    private func command(_ event: Event, _ timestamp: Int64, digest: UInt64 = 1, alert: Bool = false) -> Operation {
        .command(
            event: event,
            version: .at(timestamp),
            digest: digest,
            pace: .spaced(0),
            request: PushRequest(requestsHighPriority: false, mayUseReserve: false, carriesAlert: alert),
            registration: nil
        )
    }

    private func settlement(_ timestamp: Int64, _ outcome: Settlement = .accepted, dead: String? = nil) -> Operation {
        .settlement(version: .at(timestamp), outcome: outcome, digest: 1, retirement: dead.map(retirement))
    }

    private func retirement(_ text: String) -> TokenRetirement<[UInt8]> {
        TokenRetirement(token: Array(text.utf8), environment: .production, invalidAtMilliseconds: nil)
    }

    private func confirm(_ milliseconds: Int64) -> Operation { .confirmDepartures(atMilliseconds: milliseconds) }

    // MARK: - Activities

    @Test func `An audience that a registration no longer names is left, until the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.admit(register(in: list(1, 2))).departures == nil)
        let left = comparison.admit(register(at: 200, in: list(2, 3)))
        #expect(left.verdict == .registered && left.departures == departures(1, at: 200))
        // A worker died, and the next worker reads the registration again. The reply names the left audience
        // again.
        #expect(comparison.admit(register(at: 200, in: list(2, 3))).departures == departures(1, at: 200))
        // An older registration joins no audience. Its reply names the audiences that the activity has left
        // before.
        let stale = comparison.admit(register(at: 150, in: list(4)))
        #expect(stale.verdict == .stale && stale.departures == departures(1, at: 200))
        #expect(comparison.admit(register(at: 150, in: nil)).departures == nil)
        comparison.settle(confirm(199))
        #expect(comparison.admit(register(at: 200, in: list(2, 3))).departures == departures(1, at: 200))
        comparison.settle(confirm(200))
        #expect(comparison.admit(register(at: 200, in: list(2, 3))).departures == nil)
        #expect(comparison.admit(register(at: 300, in: [])).departures == departures(2, 3, at: 300))
    }

    @Test func `An audience that is joined again is not left`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1)))
        #expect(comparison.admit(register(at: 200, in: list(2))).departures == departures(1, at: 200))
        #expect(comparison.admit(register(at: 300, in: list(1))).departures == departures(2, at: 300))
        // The confirmation of the first leave comes late. It must not confirm the second leave.
        comparison.settle(confirm(200))
        #expect(comparison.admit(register(at: 300, in: nil)).verdict == .registered)
        #expect(comparison.admit(command(.update, 100)).departures == departures(2, at: 300))
    }

    @Test func `A held command comes back when the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1)))
        comparison.admit(.unregister(atMilliseconds: 150))
        comparison.settle(confirm(150))
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: nil, version: .at(100), command: [7])) == .held)
        #expect(comparison.admit(register("bb", at: 200, in: list(2))).heldCommand == [7])
        let left = comparison.admit(register("bb", at: 300, in: []))
        #expect(left.heldCommand == nil && left.departures == departures(2, at: 300))
        #expect(comparison.admit(register("bb", at: 300, in: nil)).heldCommand == [7])
    }

    @Test func `An admission waits until the leave is confirmed`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1, 2)))
        #expect(comparison.admit(.unregister(atMilliseconds: 150)).departures == departures(1, 2, at: 150))
        #expect(comparison.admit(.unregister(atMilliseconds: 120)).departures == departures(1, 2, at: 150))
        for event in [Event.update, .end] {
            let reply = comparison.admit(command(event, 100))
            #expect(reply.verdict == .departures && reply.departures == departures(1, 2, at: 150))
        }
        comparison.settle(confirm(150))
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
    }

    @Test func `A member's state is never unchanged`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1)))
        for timestamp in Int64(100)...102 {
            let sent = comparison.admit(command(.update, timestamp))
            #expect(sent.verdict == .send && sent.registration == token("aa", at: 100))
            comparison.settle(settlement(timestamp))
        }
        comparison.admit(register(at: 200, in: []))
        comparison.settle(confirm(200))
        #expect(comparison.verdict(command(.update, 103)) == .send, "an audience's push may be shown")
        comparison.settle(settlement(103))
        #expect(comparison.verdict(command(.update, 104)) == .unchanged)
    }

    @Test func `An accepted end leaves, and its registration brings nothing back`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1)))
        #expect(comparison.verdict(command(.update, 100)) == .send)
        #expect(comparison.admit(settlement(100)).departures == nil)
        #expect(comparison.verdict(command(.end, 101)) == .send)
        #expect(comparison.admit(settlement(101, .notShown)).departures == nil)
        #expect(comparison.verdict(command(.end, 102)) == .send)
        for _ in 0..<2 { #expect(comparison.admit(settlement(102)).departures == departures(1, at: 101)) }
        let again = comparison.admit(register(in: list(1)))
        #expect(again.verdict == .stale && again.departures == departures(1, at: 101))
        #expect(comparison.verdict(command(.end, 102)) == .departures)
        comparison.settle(confirm(101))
        #expect(comparison.verdict(command(.end, 102)) == .duplicate)
    }

    @Test func `A dead token leaves, with a version that nobody has`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1, 2)))
        let nobody = Version(timestamp: 0, sequence: 0)
        #expect(comparison.admit(.retire(version: nobody, retirement("bb"))).departures == nil)
        let retired = comparison.admit(.retire(version: nobody, retirement("aa")))
        #expect(retired.hasRetiredToken && retired.departures == departures(1, 2, at: 101))
        // The reply to the retirement was lost, so the retirement is repeated. The second reply names the
        // same audiences.
        let again = comparison.admit(.retire(version: nobody, retirement("aa")))
        #expect(!again.hasRetiredToken && again.departures == departures(1, 2, at: 101))
        #expect(comparison.verdict(register(in: list(1, 2))) == .stale)
        #expect(comparison.admit(register("bb", at: 200, in: list(1))).departures == departures(2, at: 200))
        // A settlement of an unknown activity stores nothing.
        let unknown = TestKey.activity("unknown")
        #expect(comparison.admit(.retire(version: nobody, retirement("aa")), unknown).departures == nil)
        #expect(comparison.server.command("EXISTS", unknown.text) == ["0"])
    }

    @Test func `A 429 and a start do not change the audiences`() throws {
        let comparison = try ScriptComparison()
        comparison.admit(register(in: list(1)))
        comparison.admit(command(.update, 100))
        #expect(comparison.admit(.throttle(version: .at(100), pace: .spaced(1_000))).departures == nil)
        #expect(comparison.verdict(.start(version: .at(200), claim: 7)) == .send)
        #expect(comparison.admit(settlement(200)).departures == nil)
        #expect(comparison.admit(register("bb", at: 200, in: list(2))).departures == departures(1, at: 200))
        #expect(comparison.admit(.throttle(version: .at(100), pace: .spaced(1_000))).departures == nil)
    }

    /// Besides its audiences, the activity's value has all parts that the name of this test lists.
    @Test func `Audiences are stored together with an accepted alert, a dead token, a 429, a start and a held command`()
        throws
    {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(.start(version: .at(50), claim: 7)) == .send)
        comparison.admit(register("cc", in: list(1)))
        #expect(comparison.verdict(command(.update, 100, alert: true)) == .send)
        comparison.settle(
            .settlement(version: .at(100), outcome: .accepted, digest: 1, retirement: retirement("cc"), alert: .at(100))
        )
        comparison.settle(confirm(101))
        comparison.admit(register("dd", at: 200, in: list(1, 2, 3, 4, 5, 6, 7, 8)))
        comparison.settle(.throttle(version: .at(100), pace: .spaced(0)))
        comparison.admit(.unregister(atMilliseconds: 300))
        comparison.settle(confirm(300))
        comparison.admit(register("ee", at: 400, in: list(1, 2)))
        comparison.settle(.retire(version: .at(100), retirement("ee")))
        comparison.settle(confirm(401))
        #expect(comparison.verdict(command(.update, 110, alert: true)) == .noToken)
        let hold = Operation.hold(attributesType: nil, version: .at(110), command: [7], carriesAlert: true)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.admit(register("ff", at: 500, in: list(3))).heldCommand == [7])
        #expect(comparison.admit(command(.update, 110, alert: true)).registration == token("ff", at: 500))
        let parts = comparison.server.hash(comparison.key.text)
        #expect(Set(parts.keys) == ["r", "t", "e", "a", "d", "l", "b", "h"])
        let inspection = try ActivityInspection(value: comparison.server.value(comparison.key.text))
        #expect(inspection.audiences == [AudienceDigest(value: 3)] && inspection.audiencesLeft.isEmpty)
        #expect(inspection.heldCommand?.command == [7] && inspection.acceptedAlertVersion == .at(100))
        #expect(ActivityState(inspection).audiences.currentDigests == [3])
        #expect(comparison.admit(settlement(110)).departures == nil)
    }

    @Test func `A registration that would leave too many audiences must come again`() throws {
        let comparison = try ScriptComparison()
        var left: [UInt64] = []
        for round in UInt64(0)..<3 {
            let audiences = (0..<8).map { round * 8 + $0 }
            #expect(comparison.verdict(register(at: 100 + Int64(round), in: bytes(audiences))) == .registered)
            if round < 2 { left += audiences }
        }
        #expect(comparison.verdict(register(at: 110, in: [])) == .full)
        #expect(comparison.admit(.unregister(atMilliseconds: 110)).departures?.count == 6 + 24 * 8)
        comparison.settle(confirm(110))
        #expect(comparison.admit(register(at: 120, in: list(1))).departures == nil)
    }

    // MARK: - Devices

    @Test func `A device is in the audiences that its registrations of all types name`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.admit(register(in: list(1, 2), type: "Game"))
        comparison.admit(register("bb", in: list(2, 3), type: "Race"))
        #expect(comparison.admit(register(at: 200, in: [], type: "Game")).departures == departures(1, at: 200))
        let stale = comparison.admit(register(at: 150, in: list(9), type: "Game"))
        #expect(stale.verdict == .stale && stale.departures == departures(1, at: 200))
        #expect(
            comparison.admit(register("bb", at: 200, in: list(3), type: "Race")).departures == departures(1, 2, at: 201)
        )
        comparison.settle(confirm(200))
        #expect(comparison.admit(register(at: 300, in: list(1), type: "Game")).departures == departures(2, at: 201))
        comparison.settle(confirm(201))
        #expect(comparison.admit(register(at: 300, in: list(1), type: "Game")).departures == nil)
        #expect(comparison.admit(.unregister(atMilliseconds: 250)).departures == departures(3, at: 250))
        #expect(comparison.admit(.unregister(atMilliseconds: 400)).departures == departures(3, 1, at: 400))
    }

    @Test func `A dead push-to-start token leaves the audiences that no other type names`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.admit(register(in: list(1, 2), type: "Game"))
        comparison.admit(register("bb", in: list(2), type: "Race"))
        let dead = Operation.settlement(
            attributesType: "Game",
            version: .at(100),
            outcome: .notShown,
            digest: 0,
            retirement: retirement("aa")
        )
        let reply = comparison.admit(dead)
        #expect(reply.hasRetiredToken && reply.departures == departures(1, at: 101))
        let again = comparison.admit(dead)
        #expect(!again.hasRetiredToken && again.departures == departures(1, at: 101))
        comparison.settle(confirm(101))
        #expect(comparison.admit(dead).departures == nil)
    }

    @Test func `A held start comes back when the leave is confirmed`() throws {
        let comparison = try ScriptComparison(Self.device)
        comparison.admit(register(in: list(1), type: "Game"))
        comparison.admit(.unregister(atMilliseconds: 150))
        #expect(comparison.verdict(.hold(attributesType: "Game", version: .at(100), command: [7])) == .held)
        let left = comparison.admit(register(at: 200, in: list(2), type: "Game"))
        #expect(left.verdict == .registered && left.heldCommand == nil && left.departures == departures(1, at: 150))
        #expect(comparison.admit(register(at: 200, in: nil, type: "Game")).heldCommand == [7])
    }
}
