import Delivery
import LiveActivity
import Testing

/// Commands that cannot be sent soon go to the deferred topic, and are read again later. (R19)
@Suite struct DeferralTests {
    /// Slightly more than `deferAfterMilliseconds`, so that the core has checked the wait and deferred the
    /// command.
    static let overdueMilliseconds: Int64 = 11_200
    static let delayMilliseconds: Int64 = 30_000
    /// Slightly more than the time between two reviews of the commands that wait for pools (`reviewPoolQueues`).
    static let poolReviewMilliseconds: Int64 = 600
    static let production = PoolTarget(appIndex: 0, environment: .production)
    static let sandbox = PoolTarget(appIndex: 0, environment: .sandbox)

    @Test func `A push that its pool does not accept is deferred, and sent when it comes back`() throws {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send, timestamp: CoreHarness.startSeconds + 5)
        core.elapseInSteps(9_000)
        #expect(core.deferrals.isEmpty)
        core.elapseInSteps(Self.overdueMilliseconds - 9_000)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.cause == "pool" && deferredCommand.deferral.count == 1)
        #expect(
            deferredCommand.value.contains("\"timestamp\":\(CoreHarness.startSeconds + 1)"),
            "the command's own timestamp, not the raised one"
        )
        #expect(core.committableOffset == 0, "not before Kafka has acknowledged the deferred record")
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0 && core.results.isEmpty)
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.admitAndRespond()
        core.acknowledgeAll()
        let result = try #require(core.results.first)
        #expect(core.outcomes == ["u1 accepted"])
        #expect(result.topic == .commands && result.offset == 0, "the result names the original record")
        #expect(core.committableOffset(core.deferredPartition) == 1)
    }

    @Test func `A command that was deferred before is deferred again after one second`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(core.deferrals[0])
        core.reply(.send)
        core.elapseInSteps(Self.poolReviewMilliseconds)
        #expect(core.deferrals.count == 1)
        core.elapseInSteps(1_200)
        #expect(core.deferrals.count == 2 && core.deferrals[1].deferral.count == 2)
        #expect(core.deferrals[1].deferral.sourceOffset == 0 && core.deferrals[1].deferral.sourceTopic == .commands)
    }

    @Test func `A newer state waits for the deferred one, and replaces it`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.elapseInSteps(5_000)
        core.receive(.update(2))
        core.elapseInSteps(Self.delayMilliseconds - 5_000)
        #expect(core.deferrals.count == 1 && core.outstandingCalls == [], "u2 waits for the deferred u1")
        core.receive(core.deferrals[0])
        #expect(core.outcomes == ["u1 superseded"])
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 superseded", "u2 accepted"], "only the newest state is pushed")
        #expect(core.committableOffset == 2 && core.committableOffset(core.deferredPartition) == 1)
    }

    @Test func `A newer state is sent at once when the pool is back`() throws {
        let core = try CoreHarness.withBlockedPool()
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.elapseInSteps(Self.poolReviewMilliseconds)
        core.receive(.update(2))
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `The return of a pool is reported once`() throws {
        let core = try CoreHarness.withBlockedPool()
        var recoveries = [core.takeDuePoolRecoveryReport()]
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        recoveries += [core.takeDuePoolRecoveryReport(), core.takeDuePoolRecoveryReport()]
        core.elapseInSteps(2_000)
        core.receive(.update(2, of: "b"))
        core.admitAndRespond()
        recoveries.append(core.takeDuePoolRecoveryReport())
        #expect(recoveries == [false, true, false, false])
    }

    @Test func `The highest numbers that a deferred record can hold do not trap`() throws {
        let tokenMembers = #""token":"\#(CoreHarness.token)","environment":"production","#
        let core = try CoreHarness.withBlockedPool(.update(1, beside: tokenMembers))
        var deferredCommand = core.deferrals[0]
        deferredCommand.deferral.attemptCount = .max
        deferredCommand.deferral.earlierResultCount = .max
        deferredCommand.deferral.supersededCount = .max
        deferredCommand.deferral.serviceFailureCount = .max
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.reply(.duplicate)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 duplicate"])
        #expect(core.committableOffset(core.deferredPartition) == 1)
    }

    @Test func `A state without an alert does not overtake a deferred alert`() throws {
        let core = try CoreHarness.withBlockedPool(.alert(1))
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.elapseInSteps(Self.poolReviewMilliseconds)
        core.receive(.update(2))
        #expect(core.outstandingCalls == [])
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(core.deferrals[0])
        core.reply(.send)
        let push = try #require(core.push())
        #expect(push.body.contains(CommandText.alertText(1)), "u2 carries the alert of u1")
        core.respond(.accepted)
        #expect(core.outcomes.contains("u2 accepted") && core.outcomes.contains("u1 superseded"))
    }

    @Test func `A newer state waits for a deferred alert no longer than the delay`() throws {
        let core = try CoreHarness.withBlockedPool(.alert(1))
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.elapseInSteps(Self.poolReviewMilliseconds)
        core.receive(.update(2))
        core.elapseInSteps(Self.delayMilliseconds + 5_000)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `A carried alert is deferred with its carrier`() throws {
        let core = Self.makeCore()
        core.receive(.alert(1), .update(2))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.command == "u2" && deferredCommand.value.contains(CommandText.alertText(1)))
        #expect(deferredCommand.deferral.carriedAlertVersion?.timestamp == CoreHarness.startSeconds + 1)
        #expect(core.outcomes == [], "the rider settles with its carrier")
        core.acknowledgeAll()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 superseded"] && core.committableOffset == 2)
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(1)))
    }

    @Test func `A start without budget is deferred, and keeps its expiration`() throws {
        let core = Self.makeCore()
        core.receive(.start(1))
        core.reply(.wait, waitMilliseconds: 400_000)
        core.elapseInSteps(Self.overdueMilliseconds)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.cause == "startBudget")
        #expect(deferredCommand.value.contains("\"expiration\":\(CoreHarness.startSeconds + 601)"))
        core.acknowledgeAll()
        #expect(core.committableOffset == 1)
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.elapseInSteps(10_100)
        try #require(core.deferrals.count == 2, "the device's budget is as empty as before")
        core.acknowledgeAll()
        core.elapseInSteps(600_000)
        core.receive(core.deferrals[1])
        #expect(core.outcomes == ["s1 expired"])
    }

    @Test func `A deferred start gets its draw refunded and passes on its claim`() throws {
        let core = Self.makeCore()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        let claim = try #require(try core.oldestCall.claim)
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(core.settlements == ["s1 refunded"] && deferredCommand.deferral.claim == claim)
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.inProgressRecordCount == 0)
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.reply(.tokenFound, draw: 78)
        let newClaim = try #require(try core.oldestCall.claim)
        #expect(newClaim != claim, "if a worker dies, another one that reads the record again must not have its claim")
        #expect(
            try core.oldestCall.previousClaim == claim,
            "Redis admits the start again because the call names this claim"
        )
        core.reply(.send)
        core.push()
        core.respond(.accepted)
        #expect(core.outcomes == ["s1 accepted"])
    }

    @Test func `A state that must wait long for its pace is deferred`() throws {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: 60_000)
        core.elapseInSteps(Self.overdueMilliseconds)
        #expect(core.deferrals.map(\.cause) == ["pace"])
        core.acknowledgeAll()
        core.receive(.update(2))
        core.elapseInSteps(Self.overdueMilliseconds + 5_000)
        core.acknowledgeAll()
        #expect(core.committableOffset == 2, "u2 must wait for the pace too, so it is deferred")
    }

    @Test func `A command whose wait is shorter than the delay is not deferred`() {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: 29_000)
        core.elapseInSteps(28_000)
        #expect(core.deferrals.isEmpty)
        core.elapseInSteps(1_000 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `A push that APNs has not accepted for long is deferred`() throws {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.elapseInSteps(9_000)
        core.push()
        core.elapseInSteps(2_000)
        core.respond(.retryLater, status: 503)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.cause == "retry" && deferredCommand.deferral.attemptCount == 1)
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.admitAndRespond()
        #expect(core.results.first?.attempts == 2)
    }

    @Test(arguments: [false, true]) func `A lane that holds many bytes defers sooner`(holdsManyBytes: Bool) {
        let core = Self.makeCore { if holdsManyBytes { $0.usedBlockBytesMax = 64 } }
        core.receive(.update(1))
        core.reply(.send)
        core.elapseInSteps(4_000)
        core.push()
        core.respond(.retryLater, status: 503)
        #expect(core.deferrals.map(\.cause) == (holdsManyBytes ? ["retry"] : []))
    }

    @Test func `The count of superseded commands is deferred too`() throws {
        let core = Self.makeCore { $0.supersededResults = .counted }
        core.receive(.update(1), .update(2), .update(3))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(try #require(core.deferrals.first))
        core.admitAndRespond()
        #expect(core.results.map(\.supersededCount) == [2])
    }

    @Test func `A token that came with the command is deferred too`() throws {
        let core = Self.makeCore()
        let tokenMembers = #""token":"\#(CoreHarness.token)","environment":"production","#
        core.receiveOne(
            .update(1, beside: tokenMembers),
            partition: core.commandsPartition,
            recordTimestampMilliseconds: 1_234
        )
        core.endBatch()
        core.reply(.send, registeredAtMilliseconds: 1_234)
        core.elapseInSteps(Self.overdueMilliseconds)
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(try #require(core.deferrals.first))
        let registration = try #require(try core.oldestCall.admission?.registration)
        #expect(registration.registeredAtMilliseconds == 1_234)
    }

    @Test func `A released command is deferred as a command, not as its registration`() throws {
        let core = Self.makeCore()
        core.register(CommandText.registration())
        core.reply(.registered, held: .update(1))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        let deferredCommand = try #require(core.deferrals.first)
        #expect(deferredCommand.command == "u1" && deferredCommand.deferral.sourceTopic == .registrations)
        core.acknowledgeAll()
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(deferredCommand)
        core.admitAndRespond()
        #expect(core.results.map(\.topic) == [.registrations])
    }

    @Test func `A record on the deferred topic without a lane's headers is a dead letter`() {
        let core = Self.makeCore()
        core.receive(.update(1), partition: core.deferredPartition)
        #expect(core.deadLetters.map(\.error) == ["notDeferred"])
        #expect(core.deadLetters.map(\.source) == ["causeway.deferred/0/0"])
    }

    @Test func `Results do not wait behind a deferred topic that accepts nothing`() throws {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        core.report(.failed, on: .deferral)
        core.receive(.update(1, of: "b", beside: #""expiration":1000000000,"#))
        #expect(core.outcomes == ["b.u1 expired"])
        core.elapseInSteps(250)
        core.acknowledgeAll()
        #expect(core.deferrals.count == 2, "the deferral is produced again")
        #expect(core.committableOffset == 2)
    }

    @Test func `A push that the deferred topic does not accept is sent when the pool is back`() throws {
        let core = Self.makeCore()
        core.receive(.alert(1))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        core.report(.failed, on: .deferral)
        core.elapseInSteps(300)
        #expect(core.deferrals.count == 2, "the deferral is produced again")
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.receive(.update(2))
        core.report(.failed, on: .deferral)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit u2"], "u2 carries the alert of u1")
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["b.u1 accepted", "u2 accepted", "u1 superseded"])
        #expect(core.results.count == 3 && core.committableOffset == 3 && core.inProgressRecordCount == 0)
    }

    @Test func `A carried alert that the deferred topic does not accept returns to its own activity`() throws {
        let core = try Self.coreWithReturnedCarrier(expiringAtSecond: 40)
        #expect(core.outcomes == ["b.u1 accepted", "u2 expired"])
        #expect(core.outstandingCalls == ["admit u1"], "u1 is a command of a, and does not wait for the spacing of b")
    }

    @Test func `A carried alert that the deferred topic does not accept moves to a newer state`() throws {
        let core = try Self.coreWithReturnedCarrier(expiringAtSecond: 3_600)
        #expect(core.outstandingCalls == ["admit u2"])
        core.elapseSpacing()
        core.receive(.update(3))
        core.reply(.wait, waitMilliseconds: 100)
        core.elapse(100 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u3"])
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(1)), "u3 carries the alert of u1")
    }

    /// Returns a core in which u2, which carries the alert of u1, has returned from its deferral to its activity a.
    /// Meanwhile a was freed, and activity b got its slot.
    private static func coreWithReturnedCarrier(expiringAtSecond second: Int64) throws -> CoreHarness {
        let core = makeCore()
        core.receive(.alert(1), .update(2, beside: #""expiration":\#(CoreHarness.startSeconds + second),"#))
        core.reply(.send)
        core.elapseInSteps(overdueMilliseconds)
        core.report(.failed, on: .deferral)
        // The activity waits for the deferred command up to five seconds longer than the delay.
        core.elapseInSteps(delayMilliseconds + 6_000)
        try #require(core.deferrals.count == 2, "the deferral is produced again")
        core.receive(.update(1, of: "b"))
        core.admitAndRespond()
        core.report(.failed, on: .deferral)
        core.endBatch()
        return core
    }

    @Test func `A revoked partition's deferral is still acknowledged`() throws {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.elapseInSteps(Self.overdueMilliseconds)
        core.beginRevoking(core.commandsPartition)
        #expect(!core.isDrained(core.commandsPartition))
        core.acknowledgeOutgoingRecords()
        #expect(core.isDrained(core.commandsPartition) && core.committableOffset == 1)
    }

    static func makeCore(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> CoreHarness {
        CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = delayMilliseconds
            change(&$0)
        }
    }
}
