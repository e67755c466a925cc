import Delivery
import LiveActivity
import Testing

/// A command brings a token, but Redis refuses the command, or the command has expired. The core still registers this
/// token and sends the command that was held for it.
@Suite struct CarriedTokenTests {
    private static func tokenMembers(_ token: String = "ABCDEF0123456789") -> String {
        #""token":"\#(token)","environment":"production","#
    }

    private static let verdicts: [(StoreVerdict, String)] = [
        (.superseded, "superseded"), (.duplicate, "duplicate"), (.ended, "ended"), (.activityOver, "ended"),
    ]

    @Test(arguments: verdicts)
    func `A held command is sent even if the command that brought the token is refused`(
        verdict: StoreVerdict,
        outcome: String
    ) {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(verdict)
        #expect(core.outcomes == ["u1 \(outcome)"])
        #expect(core.outstandingCalls == [], "the token is registered only when the outcome is acknowledged")
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(core.committableOffset == 0)
        core.reply(.registered, held: .update(2))
        #expect(core.outstandingCalls == ["admit u2"])
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 \(outcome)", "u2 accepted"])
        core.acknowledgeAll()
        #expect(core.outstandingCalls == [], "the token is not registered a second time")
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A carried token is registered with its record's time, and leaves frequent updates as they are`() throws
    {
        let core = CoreHarness()
        let record = CommandText.update(1, beside: Self.tokenMembers())
        core.receiveOne(
            record,
            partition: core.commandsPartition,
            recordTimestampMilliseconds: TokenTests.startMilliseconds - 70
        )
        core.endBatch()
        core.reply(.duplicate)
        core.acknowledgeAll()
        let token = TokenRegistration(
            token: Array("abcdef0123456789".utf8),
            environment: .production,
            registeredAtMilliseconds: TokenTests.startMilliseconds - 70
        )
        guard case .register(token, nil, nil, .command, nil) = try core.oldestCall.operation else {
            Issue.record("\(try core.oldestCall)")
            return
        }
        #expect(try core.oldestCallView.earlierResultCount == 1)
    }

    @Test(arguments: [StoreVerdict.registered, .stale])
    func `A command whose token releases no held command is settled`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(.superseded)
        core.acknowledgeAll()
        core.reply(verdict)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test(arguments: [StoreVerdict.unchanged, .held])
    func `The token of the newest command is not registered a second time`(verdict: StoreVerdict) {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(verdict)
        core.acknowledgeAll()
        #expect(core.outstandingCalls == [])
        #expect(core.committableOffset == 1)
    }

    @Test func `An expired command still registers its token`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers() + ExpirationTests.expirationBeforeStart))
        #expect(core.outcomes == ["u1 expired"])
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["registerToken a"])
    }

    @Test func `A token that passes to a newer command is registered once`() {
        let core = CoreHarness()
        core.receive(
            .update(1, beside: Self.tokenMembers("00112233445566AA")),
            .update(2, beside: Self.tokenMembers("00112233445566BB")),
            .update(3)
        )
        core.reply(.superseded)
        core.acknowledgeAll()
        #expect(core.outstandingCalls == ["registerToken a"])
        core.reply(.registered)
        core.acknowledgeAll()
        #expect(core.committableOffset == 3)
        #expect(core.outstandingCalls == [])
    }

    @Test func `A held command is left to the next owner of a leaving partition`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(.superseded)
        core.acknowledgeAll()
        core.beginRevoking(core.commandsPartition)
        core.reply(.registered, held: .update(2))
        #expect(core.outstandingCalls == [])
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 0, "the next owner registers the token again")
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `After a partition is lost, its command releases no held command`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(.superseded)
        core.release(core.commandsPartition)
        core.acknowledgeAll()
        core.reply(.registered, held: .update(2))
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A registration that Redis refuses settles the command`() {
        let core = CoreHarness()
        core.receive(.update(1, beside: Self.tokenMembers()))
        core.reply(.superseded)
        core.acknowledgeAll()
        core.refuseOldestCall("NOPERM")
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.committableOffset == 1)
    }

    // MARK: - With an alert

    @Test func `A held command takes the alert of the command that it superseded`() {
        let core = CoreHarness()
        core.receive(.alert(1, beside: Self.tokenMembers()))
        core.reply(.alertAwaitsCarrier)
        #expect(core.outstandingCalls == ["registerToken u1"])
        core.reply(.registered, held: .update(2))
        #expect(core.outcomes == ["u1 superseded"])
        core.acknowledgeAll()
        core.reply(.registered, held: .update(2))
        core.reply(.send)
        let push = core.push()
        #expect(push?.command == "u2")
        #expect(push?.body.contains(#""alert":\#(CommandText.alertJSON(1))"#) ?? false)
        #expect(push?.priority == 10)
    }

    @Test func `An alert whose command already has a result is not carried`() {
        let core = CoreHarness()
        core.receive(.alert(1, beside: Self.tokenMembers()))
        core.reply(.duplicate)
        core.acknowledgeAll()
        core.reply(.registered, held: .update(2))
        core.reply(.send)
        #expect(core.push()?.body.contains("alert") == false)
    }

    @Test(arguments: [false, true])
    func `Without a held command an alert waits for the state that superseded it`(isRefused: Bool) {
        let core = CoreHarness()
        core.receive(.alert(1, beside: Self.tokenMembers()))
        core.reply(.alertAwaitsCarrier)
        if isRefused { core.refuseOldestCall("NOPERM") } else { core.reply(.registered) }
        #expect(core.outcomes == [])
        core.receive(.update(2))
        core.reply(.send)
        let push = core.push()
        #expect(push?.command == "u2")
        #expect(push?.body.contains("Goal") ?? false)
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u2 accepted", "u1 superseded"])
        #expect(core.outstandingCalls == [])
        #expect(core.committableOffset == 2)
    }
}
