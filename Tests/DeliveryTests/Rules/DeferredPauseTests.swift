import Delivery
import LiveActivity
import Testing

/// If APNs cannot take a push, the core pauses before the next attempt. If the command is then deferred, the deferred
/// record keeps the end of this pause. The record also says whether the alert was already too old to ring, because the
/// result must say so.
@Suite struct DeferredPauseTests {
    private static let delayMilliseconds: Int64 = 30_000
    /// A command that comes back while its pause is still long is deferred again within this time.
    private static let deferAgainMilliseconds: Int64 = 6_000
    /// The shortest first pause. Jitter shortens the configured 300 s to no less than half.
    private static let pauseMillisecondsMin: Int64 = 150_000

    /// An alert may ring until it is 300 s old. After this time it is too old.
    private static let alertExpiresAfterMilliseconds: Int64 = 303_000

    /// The id of the command that ends the activity because its lifetime is over.
    private static let lifetimeEnd = "lifetime:\(CoreHarness.startSeconds * 1_000)"

    private func makeCore() -> CoreHarness {
        CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = Self.delayMilliseconds
            $0.retryBaseMilliseconds = 300_000
            $0.reloadable.retryMillisecondsMax = 300_000
        }
    }

    /// Returns a core that has deferred a command whose push APNs did not accept.
    private func coreAfterRefusal(_ command: String = .update(1)) throws -> CoreHarness {
        let core = makeCore()
        core.receive(command)
        core.reply(.send)
        core.push()
        core.respond(.retryLater, status: 503)
        core.acknowledgeAll()
        try #require(core.deferrals.count == 1 && core.inProgressRecordCount == 0)
        return core
    }

    @Test func `A pause that is longer than the delay continues to its end`() throws {
        let core = try coreAfterRefusal()
        let pauseEndWallMilliseconds = core.deferrals[0].deferral.pauseEndWallMilliseconds
        #expect(core.deferrals[0].cause == "retry")
        #expect(pauseEndWallMilliseconds - core.now.wallMilliseconds >= Self.pauseMillisecondsMin)
        var readingCount = 0
        while pauseEndWallMilliseconds - core.now.wallMilliseconds > Self.delayMilliseconds {
            core.elapseInSteps(Self.delayMilliseconds - Self.deferAgainMilliseconds)
            core.receive(try #require(core.deferrals.last))
            readingCount += 1
            #expect(core.outstandingCalls == [])
            let remainingMilliseconds = pauseEndWallMilliseconds - core.now.wallMilliseconds
            if remainingMilliseconds > Self.delayMilliseconds + Self.deferAgainMilliseconds {
                core.elapseInSteps(Self.deferAgainMilliseconds)
                try #require(core.deferrals.count == readingCount + 1, "the command is deferred again")
                #expect(core.deferrals.last?.deferral.pauseEndWallMilliseconds == pauseEndWallMilliseconds)
                core.acknowledgeAll()
            } else {
                break
            }
        }
        core.elapseInSteps(pauseEndWallMilliseconds - core.now.wallMilliseconds - 100)
        #expect(core.outstandingCalls == [])
        core.elapseInSteps(100 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit u1"])
        #expect(core.committableOffset(core.deferredPartition) == Int64(readingCount) - 1)
    }

    @Test func `A newer state does not wait for the pause of an older one`() throws {
        let core = try coreAfterRefusal()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(core.deferrals[0])
        #expect(core.outstandingCalls == [])
        core.receive(.update(2))
        #expect(core.outstandingCalls == ["admit u2"] && core.outcomes == ["u1 superseded"])
    }

    /// Returns a core that has deferred u1 again, and with it the end of the lifetime. Kafka has not acknowledged these
    /// two deferred records.
    private func coreDeferringStateAndEnd() throws -> CoreHarness {
        let core = try coreAfterRefusal()
        core.receive(CommandText.end(9, id: Self.lifetimeEnd))
        core.reply(.retry)
        core.elapseInSteps(Self.delayMilliseconds)
        #expect(core.outstandingCalls == [])
        core.receive(core.deferrals[0])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        try #require(core.deferrals.map(\.command) == ["u1", "u1", Self.lifetimeEnd])
        return core
    }

    /// If the end stayed in the lane, the committed offset could not pass it while the state is deferred again and
    /// again.
    @Test func `The end of a lifetime waits for a deferred state, and is deferred with it`() throws {
        let core = try coreDeferringStateAndEnd()
        core.acknowledgeAll()
        #expect(core.outstandingCalls == [] && core.inProgressRecordCount == 0)
    }

    /// The state comes back first, and is deferred again without the end. So the end then comes back before the state.
    @Test func `The end of a lifetime waits for a deferred state that comes back after it`() throws {
        let core = try coreDeferringStateAndEnd()
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(core.deferrals[1])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["u1", "u1", Self.lifetimeEnd, "u1"])
        core.receive(core.deferrals[2])
        core.reply(.retry)
        core.elapseInSteps(Self.delayMilliseconds)
        #expect(core.outstandingCalls == [])
        core.receive(core.deferrals[3])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        #expect(core.deferrals.dropFirst(4).map(\.command) == ["u1", Self.lifetimeEnd])
    }

    @Test func `The end of a lifetime that cannot be deferred waits for a deferred state`() throws {
        let core = try coreDeferringStateAndEnd()
        core.report(.acknowledged, on: .deferral)
        core.report(.failed, on: .deferral)
        core.endBatch()
        core.elapseInSteps(Self.delayMilliseconds)
        #expect(core.outstandingCalls == [])
        core.receive(core.deferrals[1])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        #expect(core.deferrals.dropFirst(3).map(\.command) == ["u1", Self.lifetimeEnd])
    }

    /// Perhaps another lane reads the deferred state.
    @Test func `The end of a lifetime does not wait for long if the deferred state never comes back`() throws {
        let core = try coreDeferringStateAndEnd()
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(core.deferrals[2])
        core.reply(.retry)
        #expect(core.outstandingCalls == [])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        #expect(core.outstandingCalls == ["admit \(Self.lifetimeEnd)"])
    }

    // MARK: - After a takeover

    /// Returns a core that has just been assigned the partitions of another worker, and has read the end of a lifetime.
    /// Redis has permitted the end.
    private func coreAfterTakeover(deferredLogEnd: Int64?) -> CoreHarness {
        let core = makeCore()
        core.delivery.awaitDeferredBacklog(core.deferredPartition, from: 0, now: core.now)
        if let deferredLogEnd { core.delivery.noteDeferredLogEnd(core.deferredPartition, deferredLogEnd) }
        core.receive(CommandText.end(9, id: Self.lifetimeEnd))
        core.reply(.retry)
        return core
    }

    /// The previous owner died after it had deferred the state, and before the end was sent.
    @Test func `After a takeover, the end of a lifetime waits for a state that the previous owner deferred`() throws {
        var deferredState = try coreAfterRefusal().deferrals[0]
        deferredState.deferral.pauseEndWallMilliseconds = 0
        let core = coreAfterTakeover(deferredLogEnd: 1)
        #expect(core.outstandingCalls == [])
        core.elapse(1_000)
        core.reply(.retry)
        #expect(core.outstandingCalls == [])
        core.receive(deferredState)
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        core.acknowledgeAll()
        core.elapse(1_000)
        core.reply(.retry)
        #expect(core.outstandingCalls == ["admit \(Self.lifetimeEnd)"])
    }

    @Test func `After a takeover, the end of a lifetime does not wait if nothing is deferred`() {
        let core = coreAfterTakeover(deferredLogEnd: 0)
        #expect(core.outstandingCalls == ["admit \(Self.lifetimeEnd)"])
    }

    /// The lane cannot read the partition, or its log's end is not known. If the end stayed in the lane, its partition
    /// could soon receive no more records.
    @Test(arguments: [nil, 5])
    func `After a takeover, the end of a lifetime is deferred if it must wait for long`(logEnd: Int64?) throws {
        let core = coreAfterTakeover(deferredLogEnd: logEnd)
        for _ in 0..<10 {
            #expect(core.outstandingCalls == [] && core.deferrals.isEmpty)
            core.elapse(1_000)
            core.reply(.retry)
        }
        core.acknowledgeAll()
        #expect(core.outstandingCalls == [] && core.committableOffset == 1)
        core.elapse(Self.delayMilliseconds)
        core.receive(try #require(core.deferrals.first))
        core.reply(.retry)
        #expect(core.outstandingCalls == ["admit \(Self.lifetimeEnd)"])
    }

    @Test func `After a takeover, the end of a lifetime that cannot be deferred waits too`() {
        let core = coreAfterTakeover(deferredLogEnd: 5)
        for _ in 0..<10 {
            core.elapse(1_000)
            core.reply(.retry)
        }
        core.report(.failed, on: .deferral)
        core.endBatch()
        #expect(core.outstandingCalls == [])
        // By now, each command that the previous owner deferred has come back.
        core.elapse(Self.delayMilliseconds)
        core.report(.failed, on: .deferral)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit \(Self.lifetimeEnd)"])
    }

    @Test func `An update that expires behind a pausing start is expired, not deferred`() throws {
        let core = makeCore()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.retryLater, status: 503)
        core.acknowledgeAll()
        core.elapseInSteps(20_000)
        core.receive(.update(2, beside: #""expiration":\#(CoreHarness.startSeconds + 34),"#))
        core.elapseInSteps(10_000)
        core.receive(core.deferrals[0])
        core.elapseInSteps(Self.deferAgainMilliseconds)
        #expect(core.deferrals.map(\.command) == ["s1", "s1"] && core.outcomes == ["u2 expired"])
    }

    /// An overdue update is deferred with its start, and is read right after it.
    @Test func `A start keeps its pause when the update behind it is read again too`() throws {
        let core = makeCore()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.receive(.update(2))
        core.elapseInSteps(9_500)
        core.push()
        core.elapseInSteps(2_000)
        core.respond(.retryLater, status: 503)
        core.acknowledgeAll()
        try #require(core.deferrals.map(\.command) == ["s1", "u2"] && core.inProgressRecordCount == 0)
        core.elapseInSteps(Self.delayMilliseconds)
        for deferredCommand in core.deferrals { core.receive(deferredCommand) }
        #expect(core.outstandingCalls == [] && core.inProgressRecordCount == 2)
    }

    @Test func `A deferred start keeps its pause too`() throws {
        let core = makeCore()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 77)
        core.reply(.send)
        core.push()
        core.respond(.retryLater, status: 503)
        core.acknowledgeAll()
        core.elapseInSteps(Self.delayMilliseconds)
        core.receive(try #require(core.deferrals.first))
        #expect(core.outstandingCalls == [])
        core.receive(.update(2))
        #expect(core.outstandingCalls == [], "without the start there is nothing to update")
    }

    @Test func `The pauses continue to grow from deferral to deferral`() throws {
        let core = CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 1_000
            $0.retryBaseMilliseconds = 1_000
            $0.reloadable.retryMillisecondsMax = 300_000
        }
        core.receive(.update(1))
        core.reply(.send)
        var pausesMilliseconds: [Int64] = []
        for _ in 0..<3 {
            core.push()
            core.respond(.retryLater, status: 503)
            let deferredCommand = try #require(core.deferrals.last)
            let pauseMilliseconds = deferredCommand.deferral.pauseEndWallMilliseconds - core.now.wallMilliseconds
            pausesMilliseconds.append(pauseMilliseconds)
            core.acknowledgeAll()
            core.elapseInSteps(pauseMilliseconds + PaceTests.timerPrecisionMilliseconds)
            core.receive(deferredCommand)
            core.reply(.send)
        }
        #expect(core.deferrals.map(\.deferral.serviceFailureCount) == [1, 2, 3])
        for (pause, longestPause) in zip(pausesMilliseconds, [2_000, 4_000, 8_000] as [Int64]) {
            #expect((longestPause / 2...longestPause + 1).contains(pause))
        }
    }

    @Test func `A pause from a wrong clock is shortened`() throws {
        let core = try coreAfterRefusal()
        var deferredCommand = core.deferrals[0]
        deferredCommand.deferral.pauseEndWallMilliseconds = 1 << 53
        core.receive(deferredCommand)
        core.elapseInSteps(Self.deferAgainMilliseconds)
        let secondDeferral = try #require(core.deferrals.last)
        #expect(secondDeferral.deferral.pauseEndWallMilliseconds - core.now.wallMilliseconds <= 3_600_000)
    }

    /// The command was deferred two hours ahead of now, and then the clock was set back.
    @Test func `After the clock was set back, a pause is not longer than when the command was deferred`() throws {
        let core = try coreAfterRefusal()
        let pauseEndWallMilliseconds = core.deferrals[0].deferral.pauseEndWallMilliseconds
        var deferredCommand = core.deferrals[0]
        deferredCommand.deferral.pauseEndWallMilliseconds += 7_200_000
        core.receive(deferredCommand, writtenAtWallMilliseconds: core.now.wallMilliseconds + 7_200_000)
        core.elapseInSteps(Self.deferAgainMilliseconds)
        #expect(
            core.deferrals.map(\.deferral.pauseEndWallMilliseconds)
                == [pauseEndWallMilliseconds, pauseEndWallMilliseconds]
        )
    }

    /// The command has waited long enough to be deferred. The core does not defer it, because APNs did not process the
    /// push.
    @Test func `A push that APNs never processed is sent again soon, even after a long wait`() throws {
        let core = CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.retryBaseMilliseconds = 100
        }
        core.receive(.update(1))
        core.reply(.send)
        core.elapse(12_000)
        for fault in 1...5 {
            core.push()
            core.respond(.retrySoon)
            core.elapseSpacing()
            // From the third fault on, the wait is longer, and Redis admits the command again.
            if fault > 2 { core.reply(.send) }
        }
        #expect(core.deferrals.isEmpty)
        core.push()
        core.respond(.accepted)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
    }

    /// If no attempt of a push succeeds although APNs accepts the pool's other pushes, the record must not keep its
    /// offset unsettled.
    @Test func `A push that APNs never processes is deferred after ten attempts in a row`() throws {
        let core = CoreHarness { $0.reloadable.deferAfterMilliseconds = 1_000 }
        core.receive(.update(1))
        core.reply(.send)
        for fault in 1...10 {
            core.push()
            core.respond(.retrySoon)
            core.elapse(1_600 + PaceTests.timerPrecisionMilliseconds)
            if fault > 2 { core.reply(.send) }
        }
        #expect(core.deferrals.isEmpty)
        core.push()
        core.respond(.retrySoon)
        #expect(core.deferrals.map(\.cause) == ["retry"])
    }

    @Test func `A command with a suspect token waits in the deferred topic`() throws {
        let core = makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.tokenSuspect, status: 400, reason: "BadDeviceToken", isTokenRefusalTrusted: false)
        #expect(core.deferrals.map(\.cause) == ["retry"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 1 && core.outcomes == [])
    }

    @Test func `An alert that becomes too old in the deferred topic is left out`() throws {
        let core = try coreAfterRefusal(.alert(1))
        core.elapseInSteps(Self.alertExpiresAfterMilliseconds)
        core.receive(core.deferrals[0])
        core.reply(.send)
        let push = try #require(core.push())
        #expect(
            !push.body.contains(CommandText.alertText(1)) && push.priority == 5,
            "without the alert, the push has the priority of a silent update"
        )
        core.respond(.accepted)
        #expect(core.results.first?.reason == "alertExpired")
    }

    @Test func `An alert that was old before the deferral is named in the result`() throws {
        let core = try coreAfterRefusal(.alert(-301))
        core.elapseInSteps(Self.alertExpiresAfterMilliseconds)
        core.receive(core.deferrals[0])
        core.admitAndRespond()
        #expect(core.results.first?.reason == "alertExpired")
    }
}
