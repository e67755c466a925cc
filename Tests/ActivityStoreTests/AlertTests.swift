import LiveActivity
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Redis gets two commands of an activity, one after the other. The alert of the older command must neither be lost nor
/// ring twice. (R14)
@Suite(.serialized, .ownThread) struct AlertTests {
    private let token = OwnedToken(token: [1, 2, 3], environment: .sandbox, registeredAtMilliseconds: 5)

    private func command(
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
            request: PushRequest(
                requestsHighPriority: alert,
                mayUseReserve: alert,
                carriesAlert: alert,
                carriedAlert: carried.map { .at($0) }
            ),
            registration: token
        )
    }

    private func hold(_ timestamp: UInt64, _ bytes: [UInt8], alert: Bool) -> Operation {
        .hold(attributesType: nil, version: .at(timestamp), command: bytes, carriesAlert: alert)
    }

    private func settlement(_ timestamp: UInt64, _ outcome: Settlement = .accepted, alert: UInt64? = nil) -> Operation {
        Operation.settlement(
            version: .at(timestamp),
            outcome: outcome,
            digest: timestamp,
            alert: alert.map { .at($0) }
        )
    }

    /// Returns a comparison in which command 100 is held with an alert.
    private func comparison() throws -> ScriptComparison {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(100, alert: true)) == .noToken)
        #expect(comparison.verdict(hold(100, [1, 0, 1], alert: true)) == .held)
        return comparison
    }

    private let heldCommand: [UInt8] = [1, 0, 1]

    @Test(arguments: [Event.update, .end])
    func `A newer command without an alert gets the held one, and nothing changes`(event: Event) throws {
        let comparison = try comparison()
        let before = comparison.server.hash(comparison.key.text)
        for _ in 0..<2 {
            let reply = comparison.admit(command(101, event))
            #expect(reply.verdict == .alertHeld && reply.heldCommand == heldCommand)
        }
        #expect(comparison.server.hash(comparison.key.text) == before)
        // Command 100 is itself the held command and carries the alert. So Redis does not return the alert to
        // it.
        #expect(comparison.verdict(command(100)) == .held)
        #expect(comparison.verdict(command(101, event, alert: true)) == .noToken)
    }

    @Test func `A held command without an alert is replaced without a reply about it`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(100)) == .noToken)
        #expect(comparison.verdict(hold(100, [1], alert: false)) == .held)
        #expect(comparison.verdict(command(101)) == .noToken)
        #expect(comparison.server.hash(comparison.key.text)["h"] == nil)
    }

    @Test func `The held alert stays until its carrier is settled: the carrier may come again without it`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(101, alert: true)) == .noToken)
        // A worker added the alert to the body of command 101 and died. The next worker reads command 101
        // without the alert, so Redis returns the alert again.
        #expect(comparison.admit(command(101)).heldCommand == heldCommand)
        #expect(comparison.verdict(command(101, alert: true)) == .noToken)
        #expect(comparison.verdict(.register(attributesType: nil, registration: token, shows: nil)) == .registered)
        #expect(comparison.verdict(command(101, alert: true)) == .send)
        #expect(comparison.admit(command(101)).heldCommand == heldCommand)
        #expect(comparison.admit(command(102)).heldCommand == heldCommand)
        #expect(comparison.verdict(command(102, alert: true)) == .send)
        comparison.settle(settlement(102))
        #expect(comparison.server.hash(comparison.key.text)["h"] == nil)
        #expect(comparison.verdict(command(103)) == .send)
    }

    @Test func `A carrier that is held replaces the command whose alert it carries`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(101, alert: true)) == .noToken)
        #expect(comparison.verdict(hold(101, [2], alert: true)) == .held)
        #expect(comparison.admit(command(102)).heldCommand == [2])
        let registered = comparison.admit(.register(attributesType: nil, registration: token, shows: nil))
        #expect(registered.heldCommand == [2])
        // The worker dies after the verdict `send`. The next worker reads command 101 without the alert, so
        // Redis returns the alert again.
        #expect(comparison.verdict(command(101, alert: true)) == .send)
        #expect(comparison.verdict(command(101)) == .alertHeld)
        comparison.settle(settlement(101))
        #expect(comparison.verdict(command(101)) == .duplicate)
    }

    @Test func `A registration does not bring back a command whose alert a newer one carries`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(command(101, alert: true)) == .noToken)
        #expect(comparison.admit(.register(attributesType: nil, registration: token, shows: nil)).heldCommand == nil)
        #expect(comparison.verdict(command(101, alert: true)) == .send)
        #expect(
            comparison.admit(.register(attributesType: nil, registration: token, shows: .at(101))).heldCommand == nil
        )
        comparison.settle(settlement(101))
    }

    @Test func `A start takes nothing from the life before`() throws {
        let comparison = try comparison()
        #expect(comparison.verdict(.start(version: .at(101), claim: 1)) == .send)
        #expect(comparison.server.hash(comparison.key.text)["h"] == nil)
        #expect(comparison.verdict(command(100, alert: true)) == .superseded)
        #expect(comparison.verdict(command(102)) == .noToken)
    }

    // MARK: - Alerts of superseded commands

    @Test(arguments: [Event.update, .end])
    func `An alert that comes after a newer command may ride on it until that is settled`(event: Event) throws {
        let comparison = try ScriptComparison()
        let past: StoreVerdict = event == .end ? .ended : .superseded
        #expect(comparison.verdict(command(101, event, token: token)) == .send)
        let before = comparison.server.hash(comparison.key.text)
        #expect(comparison.verdict(command(100, alert: true)) == .alertAwaitsCarrier)
        #expect(comparison.verdict(command(100)) == past)
        #expect(comparison.server.hash(comparison.key.text) == before)
        comparison.settle(settlement(101, .notShown))
        #expect(comparison.verdict(command(100, alert: true)) == past)
        if event == .end { #expect(comparison.verdict(command(102, alert: true)) == .ended) }
    }

    @Test func `A waiting command is overtaken, too`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(101)) == .noToken)
        #expect(comparison.verdict(command(100, alert: true)) == .alertAwaitsCarrier)
        #expect(comparison.verdict(hold(101, [1], alert: false)) == .held)
        #expect(comparison.verdict(command(100, alert: true)) == .alertAwaitsCarrier)
        comparison.settle(settlement(101, .unknown))
        #expect(comparison.verdict(command(100, alert: true)) == .superseded)
    }

    // MARK: - Alerts that APNs has accepted

    @Test(arguments: [Event.update, .end])
    func `An accepted alert is not carried again, nor is an older one`(event: Event) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(101, alert: true, token: token)) == .send)
        comparison.settle(settlement(101, alert: 101))
        let before = comparison.server.hash(comparison.key.text)
        for older in UInt64(99)...101 {
            #expect(comparison.verdict(command(103, event, alert: true, carried: older)) == .alertAlreadyAccepted)
        }
        #expect(comparison.server.hash(comparison.key.text) == before, "nothing was changed")
        #expect(comparison.verdict(command(103, event, alert: true, carried: 102)) == .send)
    }

    @Test func `The newest accepted alert counts, in any order of settlements`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(104, alert: true, token: token)) == .send)
        comparison.settle(settlement(104, alert: 103))
        comparison.settle(settlement(102, alert: 102))
        #expect(comparison.verdict(command(105, alert: true, carried: 103)) == .alertAlreadyAccepted)
        #expect(comparison.verdict(command(105, alert: true, carried: 104)) == .send)
    }

    @Test(arguments: [Settlement.notShown, .unknown])
    func `An alert that was not accepted may ride on`(settlement: Settlement) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(101, alert: true, token: token)) == .send)
        comparison.settle(self.settlement(101, settlement, alert: 101))
        #expect(comparison.verdict(command(102, alert: true, carried: 101)) == .send)
    }

    @Test func `The accepted alert is stored together with all other parts`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(101, alert: true, token: token)) == .send)
        comparison.settle(settlement(101, alert: 101))
        comparison.settle(.throttle(version: .at(101), pace: .spaced(0)))
        let newer = OwnedToken(token: [7, 7], environment: .production, registeredAtMilliseconds: 9)
        #expect(comparison.verdict(.register(attributesType: nil, registration: newer, shows: nil)) == .registered)
        #expect(comparison.admit(command(102)).registration == newer)
        comparison.settle(settlement(102))
        let unregistered = Operation.unregister(atMilliseconds: 10)
        #expect(comparison.verdict(unregistered) == .unregistered)
        #expect(comparison.verdict(command(103, alert: true, carried: 101)) == .alertAlreadyAccepted)
        #expect(comparison.verdict(command(103)) == .noToken)
        #expect(comparison.verdict(hold(103, [1], alert: false)) == .held)
        #expect(comparison.verdict(command(104, alert: true, carried: 101)) == .alertAlreadyAccepted)
        let last = OwnedToken(token: [8], environment: .production, registeredAtMilliseconds: 11)
        #expect(comparison.admit(command(104, token: last)).registration == last)
    }

    @Test func `A start clears the accepted alert`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(command(101, alert: true, token: token)) == .send)
        comparison.settle(settlement(101, alert: 101))
        #expect(comparison.server.hash(comparison.key.text)["e"] != nil)
        #expect(comparison.verdict(.start(version: .at(105), claim: 1)) == .send)
        #expect(comparison.server.hash(comparison.key.text)["e"] == nil)
    }
}
