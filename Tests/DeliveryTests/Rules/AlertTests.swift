import Delivery
import LiveActivity
import Testing

/// An alert that APNs has not accepted moves to a newer state, and its record settles with that state. An alert that is
/// too old or does not fit is left out.
@Suite struct AlertTests {
    static func bodyPrefix(withAlert second: Int64) -> String { #"{"aps":{"alert":\#(CommandText.alertJSON(second)),"# }

    @Test func `A newer state of the same batch carries the alert`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2))
        #expect(core.outcomes == [], "the alert's record settles only with its carrier")
        #expect(core.outstandingCalls == ["admit u2"])
        #expect(try core.oldestCall.admission?.mayReplaceHeldAlert == true)
        #expect(try core.oldestCall.admission?.requestsHighPriority == true)
        #expect(try core.oldestCall.admission?.mayUseReserve == true)
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "u2")
        #expect(push.body.hasPrefix(Self.bodyPrefix(withAlert: 1) + #""timestamp":1790000002,"#))
        #expect(push.body.contains(#""content-state":{"n":2}"#))
        #expect(push.priority == 10)
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 accepted", "u1 superseded"])
        #expect(core.settlements == ["u2 accepted"], "Redis never admitted u1, so only u2 is settled")
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
        #expect(core.delivery.carriedAlertCount == 1)
    }

    @Test func `A carried alert is in the body as if the producer had written it there`() throws {
        let core = CoreHarness()
        core.receive(
            CommandText.update(1, alert: true),
            CommandText.update(2, beside: #""payload":{"x":[1]},"#, inside: #","stale-date":1790000100"#)
        )
        core.reply(.send, timestamp: CoreHarness.startSeconds + 7)
        let push = try #require(core.push())
        #expect(
            push.body == #"{"aps":{"alert":\#(CommandText.alertJSON(1)),"timestamp":1790000007,"event":"update","#
                + #""content-state":{"n":2},"stale-date":1790000100},"x":[1]}"#
        )
        #expect(push.sentExpirationSeconds == 1_790_000_100)
    }

    @Test func `Of two alerts, the newer one rings`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .alert(2), .update(3))
        #expect(core.outcomes == ["u1 superseded"])
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 2)))
    }

    @Test func `An alert moves from each state to the next newer one until it is sent`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2), .update(3))
        core.receive(.update(4))
        #expect(core.outcomes == ["u2 superseded"])
        core.reply(.wait, waitMilliseconds: 100)
        #expect(core.outcomes == ["u2 superseded", "u3 superseded"])
        core.elapse(110)
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "u4" && push.body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes.suffix(2) == ["u4 accepted", "u1 superseded"])
    }

    @Test func `A waiting state carries an older alert that comes later`() throws {
        let core = CoreHarness()
        core.receive(.update(2), .alert(1))
        #expect(core.outcomes == [])
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
    }

    @Test func `Of two older alerts that come late, the newer one is carried`() throws {
        let core = CoreHarness()
        core.receive(.update(4), .alert(2), .alert(1), .alert(3))
        #expect(core.outcomes == ["u1 superseded", "u2 superseded"])
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.hasPrefix(Self.bodyPrefix(withAlert: 3)) && !push.body.contains(CommandText.alertText(2)))
        core.respond(.accepted)
        #expect(core.outcomes.suffix(2) == ["u4 accepted", "u3 superseded"])
    }

    @Test func `An end carries an older alert`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .end(2))
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "e2" && push.body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
    }

    /// The alert is older than the end, so it belongs to the life that the end ends.
    @Test func `A late end carries the older alert that a newer state carried before`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(5), .end(3))
        #expect(core.outcomes == [])
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
    }

    @Test func `A start neither carries an older alert nor gives its own to a newer state`() throws {
        let core = CoreHarness()
        core.receive(.start(1), .start(2))
        #expect(core.outcomes == ["s1 superseded"])
        core.receive(.alert(3))
        core.reply(.tokenFound)
        core.reply(.send)
        #expect(try #require(core.push()).body.contains("Kick-off"))
    }

    // MARK: - Where the alert is when a newer state replaces its state

    @Test func `A newer state carries an alert whose push waits for a stream`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send)
        core.receive(.update(2))
        core.elapse(1_000)
        #expect(core.push() == nil)
        #expect(core.outstandingCalls == ["admit u2"])
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 accepted", "u1 superseded"])
        #expect(core.settlements == ["u2 accepted", "u1 notShown"])
    }

    /// The alert of u1 moves from u2 to u3. If the core also settled u2 in Redis, Redis would count this alert as
    /// replaced, although u3 still carries it.
    @Test func `A carrier that was admitted and then superseded is not settled`() {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2))
        core.reply(.send)
        core.receive(.update(3))
        core.elapse(1_000)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u2 superseded"])
        core.admitAndRespond()
        #expect(core.outcomes == ["u2 superseded", "u3 accepted", "u1 superseded"])
        #expect(core.settlements == ["u3 accepted"])
    }

    @Test(arguments: [PushResult.Disposition.retrySoon, .retryLater, .ambiguous])
    func `A newer state carries an alert whose push failed`(disposition: PushResult.Disposition) throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.admitAndRespond(disposition)
        core.receive(.update(2))
        core.elapseSpacing()
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "u2" && push.body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
    }

    @Test func `A state that is sent again carries an older alert that comes late`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.reply(.send)
        core.push()
        core.receive(.alert(1))
        core.respond(.retryLater)
        #expect(core.outcomes == [])
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"])
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 accepted", "u1 superseded"])
    }

    @Test func `An alert that was sent is not sent again`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.reply(.send)
        core.push()
        core.receive(.update(2))
        core.respond(.accepted)
        core.elapseSpacing()
        core.reply(.send)
        #expect(try !#require(core.push()).body.contains("alert"))
    }

    // MARK: - Order of alerts

    /// A registration releases an older alert while a newer alert is in flight.
    @Test(arguments: [false, true]) func `An older alert does not ring after a newer one`(
        isReceivedBeforeResponse: Bool
    )
        throws
    {
        let core = CoreHarness()
        core.receive(.alert(4))
        core.register(CommandText.registration())
        core.reply(.send)
        #expect(core.push()?.command == "u4")
        core.reply(.registered, held: .alert(2))
        #expect(core.outcomes == [])
        try expectPushWithoutAlert(of: core, isReceivedBeforeResponse)
    }

    /// Redis gives the held alert u2 to the newer state u4. Then it also releases the held command u2.
    @Test(arguments: [false, true]) func `A held alert that comes twice rings once`(isReceivedBeforeResponse: Bool)
        throws
    {
        let core = CoreHarness()
        core.receive(.update(4))
        core.register(CommandText.registration())
        core.reply(.alertHeld, held: .alert(2))
        core.reply(.registered, held: .alert(2))
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 2)))
        try expectPushWithoutAlert(of: core, isReceivedBeforeResponse)
    }

    /// Lets APNs accept the push of the command u4. Expects that the next update, u5, is pushed without an alert.
    ///
    /// - Parameter isReceivedBeforeResponse: whether the core receives u5 before APNs accepts u4.
    private func expectPushWithoutAlert(of core: CoreHarness, _ isReceivedBeforeResponse: Bool) throws {
        if isReceivedBeforeResponse { core.receive(.update(5)) }
        core.respond(.accepted)
        #expect(core.outcomes == ["u2 superseded", "u4 accepted"])
        if !isReceivedBeforeResponse { core.receive(.update(5)) }
        core.elapseSpacing()
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.command == "u5" && !push.body.contains("alert"))
        #expect(push.priority == 5, "a push without an alert draws nothing from the budget")
    }

    /// The state u4 carries the held alert u2. APNs rejects u4, so the alert moves to u5.
    @Test func `A held alert is not lost with the state that took it over`() throws {
        let core = CoreHarness()
        core.receive(.update(4))
        core.register(CommandText.registration())
        core.reply(.alertHeld, held: .alert(2))
        core.reply(.registered, held: .alert(2))
        core.reply(.send)
        core.push()
        core.receive(.update(5))
        core.respond(.rejected)
        core.elapseSpacing()
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 2)))
    }

    @Test(arguments: [false, true]) func `An alert that is newer than the carried one moves to the next state`(
        isReceivedBeforeResponse: Bool
    )
        throws
    {
        let core = CoreHarness()
        core.receive(.alert(1), .update(4))
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 1)))
        core.receive(.alert(2))
        if isReceivedBeforeResponse { core.receive(.update(5)) }
        core.respond(.accepted)
        #expect(core.outcomes == ["u4 accepted", "u1 superseded"])
        if !isReceivedBeforeResponse { core.receive(.update(5)) }
        core.elapseSpacing()
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(Self.bodyPrefix(withAlert: 2)))
    }

    @Test func `Redis decides about a late alert if no newer one has rung`() {
        let core = CoreHarness()
        core.receive(.update(4))
        core.reply(.send)
        core.push()
        core.receive(.alert(2))
        core.respond(.accepted)
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u2"], "no newer alert has rung, so Redis decides")
    }

    @Test func `If there is no token, the alert is held inside the newer state`() throws {
        let core = CoreHarness()
        core.receive(.alert(1))
        core.receive(.update(2))
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["admit u2"])
        core.reply(.noToken)
        #expect(core.outstandingCalls == ["hold u2"])
        #expect(try core.oldestCall.holdsAlert)
        core.reply(.held)
        #expect(core.outcomes == ["u2 held", "u1 superseded"])
    }

    @Test func `A state with a carried alert has another digest than the state alone`() throws {
        let coreWithoutAlert = CoreHarness()
        coreWithoutAlert.receive(.update(2))
        let carryingCore = CoreHarness()
        carryingCore.receive(.alert(1), .update(2))
        #expect(try coreWithoutAlert.oldestCall.admission?.digest != carryingCore.oldestCall.admission?.digest)
        let coreWithOwnAlert = CoreHarness()
        let aps = #""aps":{"alert":\#(CommandText.alertJSON(1)),"#
        coreWithOwnAlert.receive(String.update(2).replacing(#""aps":{"#, with: aps))
        #expect(try coreWithOwnAlert.oldestCall.admission?.digest == carryingCore.oldestCall.admission?.digest)
    }

    // MARK: - Alerts that do not fit or are too old

    @Test func `A state is sent without an alert that does not fit`() throws {
        let core = CoreHarness()
        let filler = String(repeating: "x", count: 3_990)
        core.receive(.alert(1), .update(2, beside: #""payload":{"x":"\#(filler)"},"#))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.results.first?.reason == "alertDidNotFit")
        core.reply(.send)
        let push = try #require(core.push())
        #expect(!push.body.contains("alert") && push.priority == 5)
    }

    @Test func `An alert that just fits is carried`() throws {
        let core = CoreHarness()
        let update = String.update(2, beside: #""payload":{"x":""},"#)
        let coreWithoutFiller = CoreHarness()
        coreWithoutFiller.receive(.alert(1), update)
        let roomBytes = try Limits.bodyBytesMax - coreWithoutFiller.oldestCallView.body.count
        core.receive(
            .alert(1),
            update.replacing(#""x":"""#, with: #""x":"\#(String(repeating: "x", count: roomBytes))""#)
        )
        core.reply(.send)
        #expect(try #require(core.push()).body.utf8.count == Limits.bodyBytesMax)
        let coreWithoutRoom = CoreHarness()
        coreWithoutRoom.receive(
            .alert(1),
            update.replacing(#""x":"""#, with: #""x":"\#(String(repeating: "x", count: roomBytes + 1))""#)
        )
        #expect(coreWithoutRoom.results.first?.reason == "alertDidNotFit")
    }

    @Test func `A command's alert is not carried after the command's expiration`() throws {
        let core = CoreHarness()
        core.receive(.update(2))
        core.receive(.alert(3, beside: ExpirationTests.expirationAtStart))
        core.elapse(1_000)
        core.receive(.update(4))
        core.reply(.send)
        #expect(core.outcomes == ["u3 superseded"])
        #expect(try !#require(core.push()).body.contains("alert"))
    }

    @Test func `An alert whose carrier expires is sent by itself`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.receive(.alert(2))
        core.receive(.update(3, beside: ExpirationTests.expirationAtStart))
        core.elapse(1_000)
        core.reply(.unchanged)
        #expect(core.outcomes == ["u1 unchanged", "u3 expired"])
        #expect(core.outstandingCalls == ["admit u2"])
    }
}
