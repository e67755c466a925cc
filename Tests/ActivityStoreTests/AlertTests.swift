import LiveActivity
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Redis gets two commands of an activity, one after the other. The alert of the older command must neither be lost nor
/// ring twice. (R14)
@Suite(.serialized, .ownThread) struct AlertTests {
    private let token = OwnedToken(token: [1, 2, 3], environment: .sandbox, registeredAtMilliseconds: 5)

    private func makeCommand(
        _ timestamp: UInt64,
        _ event: Event = .update,
        alert: Bool = false,
        carried: UInt64? = nil,
        token: OwnedToken? = nil
    ) -> Operation {
        .command(
            event: event,
            version: .at(timestamp),
            digest: timestamp,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: alert,
                mayUseReserve: alert,
                hasAlert: alert,
                carriedAlertVersion: carried.map { .at($0) }
            ),
            registration: token
        )
    }

    private func makeHold(_ timestamp: UInt64, _ bytes: [UInt8], alert: Bool) -> Operation {
        .hold(attributesType: nil, version: .at(timestamp), command: bytes, hasAlert: alert)
    }

    private func makeSettlement(_ timestamp: UInt64, _ outcome: Settlement = .accepted, alert: UInt64? = nil)
        -> Operation
    {
        Operation.settlement(
            version: .at(timestamp),
            outcome: outcome,
            digest: timestamp,
            alert: alert.map { .at($0) }
        )
    }

    /// Returns a comparison in which command 100 is held with an alert.
    private func makeComparison(nowMilliseconds: Int64? = nil) throws -> ScriptComparison {
        let comparison = try ScriptComparison(nowMilliseconds: nowMilliseconds)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .noToken)
        #expect(comparison.verdict(makeHold(100, heldCommand, alert: true)) == .held)
        return comparison
    }

    private let heldCommand: [UInt8] = [1, 0, 1]

    @Test(arguments: [Event.update, .end])
    func `A newer command without an alert gets the held one, and nothing changes`(event: Event) throws {
        let comparison = try makeComparison()
        let hashBefore = comparison.server.hash(comparison.key.text)
        for _ in 0..<2 {
            let reply = comparison.perform(makeCommand(101, event))
            #expect(reply.verdict == .alertHeld && reply.heldCommand == heldCommand)
            #expect(reply.registeredAtMilliseconds == 0, "no token has been registered")
        }
        #expect(comparison.server.hash(comparison.key.text) == hashBefore)
        // Command 100 is itself the held command with the alert. So Redis does not return the alert.
        #expect(comparison.verdict(makeCommand(100)) == .held)
        #expect(comparison.verdict(makeCommand(101, event, alert: true)) == .noToken)
    }

    @Test func `A held command without an alert is replaced without a reply about it`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(100)) == .noToken)
        #expect(comparison.verdict(makeHold(100, [1], alert: false)) == .held)
        #expect(comparison.verdict(makeCommand(101)) == .noToken)
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.heldCommand] == nil)
    }

    @Test func `A held alert stays until its carrier is settled, because the carrier may come again without it`() throws
    {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .noToken)
        // A worker added the alert to the body of command 101 and died. The next worker reads command 101
        // without the alert, so Redis returns the alert again.
        #expect(comparison.perform(makeCommand(101)).heldCommand == heldCommand)
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .noToken)
        #expect(
            comparison.verdict(.register(attributesType: nil, registration: token, shownVersion: nil)) == .registered
        )
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .send)
        #expect(comparison.perform(makeCommand(101)).heldCommand == heldCommand)
        #expect(comparison.perform(makeCommand(102)).heldCommand == heldCommand)
        #expect(comparison.verdict(makeCommand(102, alert: true)) == .send)
        comparison.settle(makeSettlement(102))
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.heldCommand] == nil)
        #expect(comparison.verdict(makeCommand(103)) == .send)
    }

    @Test func `A carrier that is held replaces the command whose alert it carries`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .noToken)
        #expect(comparison.verdict(makeHold(101, [2], alert: true)) == .held)
        #expect(comparison.perform(makeCommand(102)).heldCommand == [2])
        let registrationReply = comparison.perform(
            .register(attributesType: nil, registration: token, shownVersion: nil)
        )
        #expect(registrationReply.heldCommand == [2])
        // The worker dies after the verdict `send`. The next worker reads command 101 without the alert, so
        // Redis returns the alert again.
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .send)
        #expect(comparison.verdict(makeCommand(101)) == .alertHeld)
        comparison.settle(makeSettlement(101))
        #expect(comparison.verdict(makeCommand(101)) == .duplicate)
    }

    @Test func `A registration does not bring back a command whose alert a newer one carries`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .noToken)
        #expect(
            comparison.perform(.register(attributesType: nil, registration: token, shownVersion: nil)).heldCommand
                == nil
        )
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .send)
        #expect(
            comparison.perform(.register(attributesType: nil, registration: token, shownVersion: .at(101))).heldCommand
                == nil
        )
        comparison.settle(makeSettlement(101))
    }

    // MARK: - Alerts that rang before Redis lost data

    /// The reread registrations raise the next timestamp to the present second, which must be the same in the model.
    private static let nowMilliseconds: Int64 = 1_700_000_000_000

    /// Returns a registration that is read again.
    private func makeRereadRegistration(releasedUntil milliseconds: Int64) -> Operation {
        .register(
            attributesType: nil,
            registration: token,
            shownVersion: nil,
            source: .readAgain(at: milliseconds)
        )
    }

    /// Redis was restored from a copy that is older than the registration, which has released the alert already (R25).
    @Test(arguments: [(releasedUntil: 99_999, isOffered: true), (releasedUntil: 100_000, isOffered: false)])
    func `A newer command does not get a held alert that a reread registration has released`(
        releasedUntil: Int64,
        isOffered: Bool
    ) throws {
        let comparison = try makeComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(comparison.perform(makeRereadRegistration(releasedUntil: releasedUntil)).heldCommand == heldCommand)
        #expect(comparison.verdict(makeCommand(101)) == (isOffered ? .alertHeld : .send))
    }

    /// The command was first held after the loss, and carries an alert that Redis offered then.
    @Test(arguments: [(releasedUntil: 89_999, isOffered: true), (releasedUntil: 90_000, isOffered: false)])
    func `The same holds for an alert that the held command carries`(releasedUntil: Int64, isOffered: Bool) throws {
        let carrier = Array(
            #"{"app":"a","activity":"b","alertTimestamp":90,"alertSequence":1,"aps":{"alertTimestamp":1}}"#.utf8
        )
        let comparison = try ScriptComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .noToken)
        #expect(comparison.verdict(makeHold(100, carrier, alert: true)) == .held)
        #expect(comparison.perform(makeRereadRegistration(releasedUntil: releasedUntil)).heldCommand == carrier)
        #expect(comparison.verdict(makeCommand(101)) == (isOffered ? .alertHeld : .send))
    }

    @Test func `A held command that is being sent loses such an alert, too`() throws {
        let comparison = try makeComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(
            comparison.verdict(.register(attributesType: nil, registration: token, shownVersion: nil)) == .registered
        )
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .send)
        #expect(comparison.perform(makeRereadRegistration(releasedUntil: 100_000)).heldCommand == heldCommand)
        #expect(comparison.verdict(makeCommand(100)) == .send)
        #expect(comparison.verdict(makeCommand(101)) == .send)
    }

    @Test(arguments: [false, true])
    func `An older command that is held only for such an alert is removed`(isCarrierSent: Bool) throws {
        let comparison = try makeComparison(nowMilliseconds: Self.nowMilliseconds)
        #expect(comparison.verdict(makeCommand(101, alert: true)) == .noToken)
        if isCarrierSent {
            #expect(comparison.verdict(makeCommand(101, alert: true, token: token)) == .send)
        }
        #expect(comparison.perform(makeRereadRegistration(releasedUntil: 100_000)).heldCommand == nil)
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.heldCommand] == nil)
        #expect(comparison.verdict(makeCommand(101)) == .send)
    }

    @Test func `A start removes the held command of the earlier life`() throws {
        let comparison = try makeComparison()
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .send)
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.heldCommand] == nil)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .superseded)
        #expect(comparison.verdict(makeCommand(102)) == .noToken)
    }

    // MARK: - Alerts of superseded commands

    @Test(arguments: [Event.update, .end])
    func `A late alert may ride on a newer command until the newer command is settled`(event: Event) throws {
        let comparison = try ScriptComparison()
        let expectedVerdict: StoreVerdict = event == .end ? .ended : .superseded
        #expect(comparison.verdict(makeCommand(101, event, token: token)) == .send)
        let hashBefore = comparison.server.hash(comparison.key.text)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .alertAwaitsCarrier)
        #expect(comparison.verdict(makeCommand(100)) == expectedVerdict)
        #expect(comparison.server.hash(comparison.key.text) == hashBefore)
        comparison.settle(makeSettlement(101, .notShown))
        #expect(comparison.verdict(makeCommand(100, alert: true)) == expectedVerdict)
        if event == .end { #expect(comparison.verdict(makeCommand(102, alert: true)) == .ended) }
    }

    @Test func `A late alert may also ride on a newer command that has no token`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(101)) == .noToken)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .alertAwaitsCarrier)
        #expect(comparison.verdict(makeHold(101, [1], alert: false)) == .held)
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .alertAwaitsCarrier)
        comparison.settle(makeSettlement(101, .unknown))
        #expect(comparison.verdict(makeCommand(100, alert: true)) == .superseded)
    }

    // MARK: - Alerts that APNs has accepted

    @Test(arguments: [Event.update, .end])
    func `An accepted alert is not carried again, nor is an older one`(event: Event) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true, token: token)) == .send)
        comparison.settle(makeSettlement(101, alert: 101))
        let hashBefore = comparison.server.hash(comparison.key.text)
        for older in UInt64(99)...101 {
            #expect(comparison.verdict(makeCommand(103, event, alert: true, carried: older)) == .alertAlreadyAccepted)
        }
        #expect(comparison.server.hash(comparison.key.text) == hashBefore, "a refused alert changes nothing in Redis")
        #expect(comparison.verdict(makeCommand(103, event, alert: true, carried: 102)) == .send)
    }

    @Test func `The newest accepted alert counts, in any order of settlements`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(104, alert: true, token: token)) == .send)
        comparison.settle(makeSettlement(104, alert: 103))
        comparison.settle(makeSettlement(102, alert: 102))
        #expect(comparison.verdict(makeCommand(105, alert: true, carried: 103)) == .alertAlreadyAccepted)
        #expect(comparison.verdict(makeCommand(105, alert: true, carried: 104)) == .send)
    }

    @Test(arguments: [Settlement.notShown, .unknown])
    func `An alert that was not accepted may ride on`(settlement: Settlement) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true, token: token)) == .send)
        comparison.settle(self.makeSettlement(101, settlement, alert: 101))
        #expect(comparison.verdict(makeCommand(102, alert: true, carried: 101)) == .send)
    }

    @Test func `The accepted alert is stored together with all other parts`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true, token: token)) == .send)
        comparison.settle(makeSettlement(101, alert: 101))
        comparison.settle(.throttle(version: .at(101), pace: .spaced(0)))
        let newerToken = OwnedToken(token: [7, 7], environment: .production, registeredAtMilliseconds: 9)
        #expect(
            comparison.verdict(.register(attributesType: nil, registration: newerToken, shownVersion: nil))
                == .registered
        )
        #expect(comparison.perform(makeCommand(102)).registration == newerToken)
        comparison.settle(makeSettlement(102))
        let unregistration = Operation.unregister(atMilliseconds: 10)
        #expect(comparison.verdict(unregistration) == .unregistered)
        #expect(comparison.verdict(makeCommand(103, alert: true, carried: 101)) == .alertAlreadyAccepted)
        #expect(comparison.verdict(makeCommand(103)) == .noToken)
        #expect(comparison.verdict(makeHold(103, [1], alert: false)) == .held)
        #expect(comparison.verdict(makeCommand(104, alert: true, carried: 101)) == .alertAlreadyAccepted)
        let lastToken = OwnedToken(token: [8], environment: .production, registeredAtMilliseconds: 11)
        #expect(comparison.perform(makeCommand(104, token: lastToken)).registration == lastToken)
    }

    @Test func `A start clears the accepted alert`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeCommand(101, alert: true, token: token)) == .send)
        comparison.settle(makeSettlement(101, alert: 101))
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.acceptedAlert] != nil)
        #expect(comparison.verdict(.start(version: .at(105), claim: 1)) == .send)
        #expect(comparison.server.hash(comparison.key.text)[ActivityPart.acceptedAlert] == nil)
    }
}
