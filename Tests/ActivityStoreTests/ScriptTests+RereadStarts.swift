import LiveActivity
import RedisTestbed
import Testing

@testable import ActivityStore

/// Starts that are read again, because Redis has lost its data. (R25)
extension ScriptTests {
    private func recordStart(_ timestamp: Int64) -> Operation { .recordStart(version: version(timestamp)) }

    /// The end of the earlier life and the start of the new life are read again. The new life goes on.
    @Test func `A start that is read again opens the activity`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa", at: 201_000)) == .registered)
        #expect(comparison.verdict(command(.end, 100)) == .send)
        #expect(comparison.verdict(command(.update, 300)) == .ended)
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(command(.update, 199)) == .superseded)
        let reply = comparison.perform(command(.update, 300))
        #expect(reply.verdict == .send && reply.registration == token("aa", at: 201_000))
    }

    @Test func `An end that is older than a start read again is of an earlier life`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(command(.end, 100)) == .superseded)
        #expect(comparison.verdict(command(.end, 300)) == .send)
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(command(.update, 301)) == .ended, "a start that is known changes nothing")
    }

    /// Redis has not lost the activity, and nothing says that the start has reached a phone.
    @Test func `A start read again removes no held command`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(100), command: [1], hasAlert: false)) == .held)
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.perform(makeRegistration("aa")).heldCommand == [1])
        #expect(comparison.verdict(command(.update, 100)) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(recordStart(300)) == .settled)
        #expect(comparison.verdict(command(.end, 250)) == .superseded)
        #expect(comparison.verdict(command(.update, 301, digest: 2)) == .send)
    }

    /// The start is held in the device's hash, which is not lost. Its update is held, too.
    @Test func `A held start whose first record is read again starts the activity`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(command(.update, 250)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(250), command: [1], hasAlert: false)) == .held)
        #expect(comparison.verdict(start(200, claim: 2)) == .send)
    }

    /// A start was deferred, so its first record is settled. After this record is read again, the deferred record may
    /// still be sent.
    @Test func `A deferred record of a start read again is sent once`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(start(200, claim: 2)) == .send)
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(start(200, claim: 3)) == .unknown)
        comparison.settle(acceptedSettlement(200))
        #expect(comparison.verdict(start(200, claim: 3)) == .duplicate)
    }

    /// The start began the activity, and the activity's token was registered. Then Redis lost its data. Now workers
    /// read the start again, and a second copy of the start for the first time.
    @Test(
        arguments: [
            (registeredAt: 201_000, verdict: StoreVerdict.duplicate), (200_000, .duplicate), (199_999, .send),
        ] as [(registeredAt: Int64, verdict: StoreVerdict)],
        [false, true]
    )
    func `A start read again is a duplicate if the activity's token is not older`(
        token: (registeredAt: Int64, verdict: StoreVerdict),
        isDeferred: Bool
    ) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(recordStart(200)) == .settled)
        #expect(comparison.verdict(makeRegistration("aa", at: token.registeredAt)) == .registered)
        let repeatedStart = Operation.admitStart(
            version: version(200),
            claim: 2,
            previousClaim: isDeferred ? 1 : nil
        )
        #expect(comparison.verdict(repeatedStart) == token.verdict)
        guard token.verdict == .duplicate else { return }
        #expect(comparison.verdict(command(.update, 250)) == .send, "the token stays")
    }

    /// APNs responded to the start's push after Redis had lost its data.
    @Test func `A start read again that is settled is a duplicate`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(recordStart(200)) == .settled)
        comparison.settle(acceptedSettlement(200))
        #expect(comparison.verdict(start(200, claim: 2)) == .duplicate)
        #expect(comparison.verdict(start(199, claim: 2)) == .superseded)
    }

    /// A failover has lost only the start. If the script forgot the accepted alert, the alert would ring again.
    @Test func `A start read again keeps the version of the accepted alert`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(command(.update, 100)) == .send)
        comparison.settle(.settle(version: version(100), .accepted, digest: 1, retirement: nil, alert: version(100)))
        #expect(comparison.verdict(recordStart(200)) == .settled)
        let carrier = StateAdmission<[UInt8]>(
            isEnd: false,
            version: version(250),
            digest: 2,
            pace: .spaced(0),
            requestsHighPriority: false,
            mayUseReserve: false,
            mayReplaceHeldAlert: true,
            carriedAlertVersion: version(100),
            isTooOld: false,
            registration: nil
        )
        #expect(comparison.verdict(.admit(carrier)) == .alertAlreadyAccepted)
    }
}
