import LiveActivity
import Testing

@testable import ActivityStore

/// Registrations that say which version the app shows (`shows`).
extension ScriptTests {
    private static let presentSeconds: Int64 = 1_760_000_400

    private func makeShownComparison() throws -> ScriptComparison {
        try ScriptComparison(nowMilliseconds: Self.presentSeconds * 1_000)
    }

    private func makeRegistration(
        _ text: String = "aa",
        at: Int64 = 100,
        showing shownVersion: Version,
        source: RegistrationSource
    ) -> Operation {
        .register(
            token(text, at: at),
            allowsFrequentUpdates: nil,
            shownVersion: shownVersion,
            source: source,
            audiences: nil
        )
    }

    /// Redis has lost the shown version, or has never known it. Perhaps it holds an older command.
    @Test(arguments: [false, true], [false, true])
    func `A version that the app shows is the newest`(isReread: Bool, isKnown: Bool) throws {
        let comparison = try makeShownComparison()
        if isKnown {
            #expect(comparison.verdict(command(.update, 90)) == .noToken)
            #expect(comparison.verdict(.hold(version: version(90), command: [1], hasAlert: true)) == .held)
        }
        let source = isReread ? RegistrationSource.readAgain(at: 50) : .record
        let reply = comparison.perform(makeRegistration(showing: version(105), source: source))
        #expect(reply.verdict == .registered && reply.heldCommand == nil)
        #expect(comparison.verdict(command(.update, 90)) == .superseded)
        #expect(comparison.verdict(command(.update, 100)) == .superseded)
        #expect(comparison.verdict(command(.update, 105)) == .duplicate)
        let newerReply = comparison.perform(command(.update, 105, 1))
        #expect(newerReply.verdict == .send)
        #expect(newerReply.timestamp == (isReread ? Self.presentSeconds + 1 : 106))
        comparison.settle(acceptedSettlement(105, 1))
        #expect(comparison.verdict(makeRegistration(showing: version(105), source: .record)) == .registered)
        #expect(comparison.perform(command(.update, 106, digest: 2)).verdict == .send)
    }

    @Test func `An end is sent although the app shows a newer version, and stays the newest`() throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(makeRegistration(showing: version(105), source: .record)) == .registered)
        #expect(comparison.perform(command(.end, 100)).timestamp == 106)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(makeRegistration(showing: version(120), source: .record)) == .registered)
        #expect(comparison.verdict(command(.update, 121)) == .ended)
    }

    /// An update and an end had the same version. The app got the update's state, or a newer one, from its server.
    @Test(arguments: [100, 105] as [Int64])
    func `A held end is sent although the app shows its version or a newer one`(shownTimestamp: Int64) throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(command(.end, 100)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(100), command: [1], hasAlert: false)) == .held)
        let registration = makeRegistration(showing: version(shownTimestamp), source: .record)
        #expect(comparison.perform(registration).heldCommand == [1])
        #expect(comparison.perform(command(.end, 100)).timestamp == shownTimestamp + 1)
        // The worker died before it sent the end. Its registration is read again.
        #expect(comparison.perform(registration).heldCommand == [1])
        #expect(comparison.perform(command(.end, 100)).timestamp == shownTimestamp + 1)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(command(.end, 100)) == .duplicate)
    }

    /// The push of an update had a raised timestamp, and the app reports this timestamp.
    @Test func `A timestamp that Redis has assigned does not supersede newer updates`() throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.perform(command(.update, 100)).timestamp == 100)
        #expect(comparison.perform(command(.update, 100, 1, digest: 2)).timestamp == 101)
        #expect(comparison.verdict(makeRegistration(showing: version(101), source: .record)) == .registered)
        #expect(comparison.perform(command(.update, 100, 2, digest: 3)).timestamp == 102)
    }

    /// Redis was emptied. An older update is read again, and brings its token, so it is sent before the registration is
    /// read again. The phone then shows this older state, so the newest one must be sent.
    @Test func `A version that a later push has replaced on the phone is sent again`() throws {
        let comparison = try makeShownComparison()
        let olderUpdate = Operation.command(
            event: .update,
            version: version(100),
            digest: 1,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                isReread: true
            ),
            registration: token("aa", at: 100_000)
        )
        #expect(comparison.perform(olderUpdate).timestamp == Self.presentSeconds + 1)
        let registration = makeRegistration(
            at: 100_001,
            showing: version(105),
            source: .readAgain(at: 100_001)
        )
        #expect(comparison.verdict(registration) == .registered)
        #expect(comparison.perform(command(.update, 105, digest: 2)).timestamp == Self.presentSeconds + 2)
    }

    @Test func `An update that waits for its pace is settled when the app shows it`() throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(command(.update, 100)) == .send)
        #expect(comparison.verdict(command(.update, 101, digest: 2, spacing: 60_000)) == .wait)
        #expect(comparison.verdict(makeRegistration(showing: version(101), source: .record)) == .registered)
        #expect(comparison.verdict(command(.update, 101, digest: 2)) == .duplicate)
        #expect(comparison.perform(command(.update, 101, 1, digest: 3)).timestamp == 102)
    }

    /// Redis knows the digest of the first state. The app shows the second one, which was held.
    @Test func `A state that the app no longer shows is not taken for unchanged`() throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(makeRegistration("aa", at: 100)) == .registered)
        #expect(comparison.verdict(command(.update, 100, digest: 1)) == .send)
        comparison.settle(acceptedSettlement(100, digest: 1))
        let retirement = TokenRetirement(
            token: Array("aa".utf8),
            environment: .production,
            invalidAtMilliseconds: nil
        )
        #expect(comparison.settleRetiresToken(.retire(version: version(0), retirement)))
        #expect(comparison.verdict(command(.update, 101, digest: 2)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(101), command: [1], hasAlert: false)) == .held)
        let registration = makeRegistration("bb", at: 200, showing: version(101), source: .record)
        #expect(comparison.perform(registration).heldCommand == nil)
        #expect(comparison.verdict(command(.update, 102, digest: 1)) == .send)
    }

    /// An older command is held for its alert, and the newest version carries this alert.
    @Test func `With the version that carries a held alert, the held command is settled too`() throws {
        let comparison = try makeShownComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(100), command: [1], hasAlert: true)) == .held)
        let carrier = StateAdmission<[UInt8]>(
            isEnd: false,
            version: version(101),
            digest: 2,
            pace: .spaced(0),
            requestsHighPriority: false,
            mayUseReserve: false,
            mayReplaceHeldAlert: true,
            carriedAlertVersion: version(100),
            isTooOld: false,
            registration: nil
        )
        #expect(comparison.verdict(.admit(carrier)) == .noToken)
        // The app shows the held version, but not yet the one that carries the alert.
        #expect(comparison.verdict(makeRegistration(showing: version(100), source: .record)) == .registered)
        #expect(comparison.verdict(command(.update, 102, digest: 3)) == .alertHeld)
        #expect(comparison.verdict(makeRegistration(showing: version(101), source: .record)) == .registered)
        #expect(comparison.verdict(.admit(carrier)) == .duplicate)
        #expect(comparison.verdict(command(.update, 102, digest: 3)) == .send)
    }
}
