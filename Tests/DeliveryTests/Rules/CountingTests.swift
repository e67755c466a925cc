import Delivery
import LiveActivity
import Testing

/// With `kafka.supersededResults: counted`, most commands that are replaced before Redis has seen them have no result
/// of their own. The result of the newer command counts them. With `countedWhenBehind`, this applies only in a backlog.
@Suite struct CountingTests {
    private func makeCountingCore(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> CoreHarness {
        CoreHarness {
            $0.supersededResults = .counted
            change(&$0)
        }
    }

    private func resultsWithCounts(_ core: CoreHarness) -> [String] {
        core.results.map { "\($0.command) \($0.outcome) \($0.supersededCount)" }
    }

    @Test func `Replaced commands of a batch are counted and settled at once`() {
        let core = makeCountingCore()
        core.receive(.update(1), .update(2), .update(3))
        #expect(core.outcomes == [])
        #expect(core.outstandingCalls == ["admit u3"])
        #expect(core.inProgressRecordCount == 1)
        #expect(core.committableOffset == 2, "u3 holds the commit back")
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u3 accepted 2"])
        core.acknowledgeAll()
        #expect(core.committableOffset == 3)
        let counters = core.counters(of: 0)
        #expect(counters.replacedCommandCount == 2 && counters.supersededWithoutResultCount == 2)
    }

    @Test(arguments: [SupersededResultMode.each, .countedWhenBehind])
    func `With the other settings, a lane that is not behind counts nothing`(choice: SupersededResultMode) {
        let core = makeCountingCore { $0.supersededResults = choice }
        core.receive(.update(1), .update(2))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        #expect(core.counters(of: 0).supersededWithoutResultCount == 0)
    }

    private func makeCoreCountingWhenBehind() -> CoreHarness {
        makeCountingCore {
            $0.supersededResults = .countedWhenBehind
            $0.reloadable.readAheadLagRecords = 100
        }
    }

    @Test func `A lane that is known to be behind counts until it has caught up`() {
        let core = makeCoreCountingWhenBehind()
        core.noteLag(101)
        core.receive(.update(1), .update(2))
        core.noteLag(50)
        core.receive(.update(3))
        #expect(core.outcomes == [], "the lane reads ahead until it has caught up")
        core.noteLag(0)
        core.receive(.update(4), .update(5))
        #expect(resultsWithCounts(core) == ["u4 superseded 0"])
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u4 superseded 0", "u3 accepted 2", "u5 accepted 0"])
    }

    @Test func `Commands that come after the time limit still belong to the backlog`() {
        let core = makeCoreCountingWhenBehind()
        core.noteLag(10_000)
        core.receive(.update(1))
        core.elapse(core.configuration.reloadable.readAheadMillisecondsMax)
        core.receive(.update(2), .update(3))
        #expect(resultsWithCounts(core) == [])
        core.noteLag(100)
        core.receive(.update(4))
        #expect(resultsWithCounts(core) == ["u3 superseded 1"], "the lane is no longer behind")
    }

    @Test func `During an assumed lag nothing is counted`() {
        let core = makeCoreCountingWhenBehind()
        core.noteLag(101, isGuess: true)
        core.receive(.update(1), .update(2))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        #expect(core.outstandingCalls == [], "the lane still reads ahead")
        core.noteLag(101)
        core.receive(.update(3))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        core.noteLag(101, isGuess: true)
        core.receive(.update(4))
        core.noteLag(0)
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u1 superseded 0", "u4 accepted 2"])
    }

    @Test func `Partitions with an unknown lag add nothing to the known lag`() {
        let core = makeCoreCountingWhenBehind()
        let otherPartition = core.assign(.commands, number: 1)
        core.noteLag(101, of: otherPartition, isGuess: true)
        core.noteLag(100)
        core.receive(.update(1), .update(2))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        core.noteLag(1, of: otherPartition)
        core.receive(.update(3))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"], "the known lags of both partitions add up to 101")
        #expect(core.counters(of: 0).supersededWithoutResultCount == 1)
    }

    /// The released command u2 already has the result `held`, so its final outcome also needs a result.
    @Test func `A command that another command's token released has its own result`() {
        let core = makeCountingCore()
        core.receive(.update(1, beside: #""token":"ABCDEF0123456789","environment":"production","#))
        core.reply(.superseded)
        core.acknowledgeAll()
        core.receive(.update(3))
        core.reply(.send, toNewest: true)
        #expect(core.push() != nil)
        core.respond(.accepted)
        core.receive(.update(4))
        core.reply(.registered, held: .update(2))
        #expect(resultsWithCounts(core) == ["u1 superseded 0", "u3 accepted 0", "u2 superseded 0"])
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core).last == "u4 accepted 0")
    }

    @Test func `The count passes to the next newer command`() {
        let core = makeCountingCore()
        core.receive(.update(1))
        core.receive(.update(2), .update(3))
        core.receive(.update(4))
        core.receive(.end(5))
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u1 accepted 0", "e5 accepted 3"])
    }

    @Test func `An older version that comes later is counted`() {
        let core = makeCountingCore()
        core.receive(.update(3))
        core.receive(.update(5), .update(4))
        #expect(core.committableOffset == 0, "u4 is settled, but u3 and u5 before it are not")
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u3 accepted 0", "u5 accepted 1"])
    }

    @Test func `A newer command in another partition holds back only that partition's commit`() {
        let core = makeCountingCore()
        let otherPartition = core.assign(.commands, number: 1)
        core.receiveOne(.update(2), partition: otherPartition)
        core.receiveOne(.update(1), partition: core.commandsPartition)
        core.endBatch()
        #expect(core.committableOffset == 1 && core.committableOffset(otherPartition) == 0)
        core.beginRevoking(core.commandsPartition)
        #expect(core.isDrained(core.commandsPartition))
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u2 accepted 1"])
    }

    @Test func `A revocation drops a waiting command together with its count`() {
        let core = makeCountingCore { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1, of: "first"))
        core.receive(.update(1), .update(2))
        #expect(core.committableOffset == 0)
        core.beginRevoking(core.commandsPartition)
        core.reply(.unchanged)
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 2, "the next owner reads u2 again")
        #expect(core.counters(of: 0).supersededWithoutResultCount == 1)
    }

    @Test func `A command that Redis has seen has its own result`() {
        let core = makeCountingCore()
        core.receive(.update(1))
        core.receive(.update(2), .update(3))
        core.reply(.wait, waitMilliseconds: 500)
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        core.reply(.superseded)
        #expect(resultsWithCounts(core) == ["u1 superseded 0", "u3 superseded 1"])
        core.receive(.update(4), .update(4))
        #expect(core.outcomes.last == "u4 duplicate")
    }

    @Test func `A command with a count keeps it after Redis has seen it`() {
        let core = makeCountingCore()
        core.receive(.update(1), .update(2))
        core.reply(.wait, waitMilliseconds: 500)
        core.receive(.update(3), .update(4))
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u2 superseded 1", "u4 accepted 1"])
    }

    @Test func `An alert that moves to a newer state has its own result`() {
        let core = makeCountingCore()
        core.receive(.alert(1), .update(2), .update(3), .alert(4), .update(5))
        #expect(core.outcomes == [])
        core.admitAndRespond()
        #expect(resultsWithCounts(core).sorted() == ["u4 superseded 3", "u5 accepted 0"], "u4 counts u1, u2 and u3")
        core.acknowledgeAll()
        #expect(core.committableOffset == 5)
    }

    @Test func `An alert that a newer one replaces is counted`() {
        let core = makeCountingCore()
        core.receive(.alert(1), .alert(2))
        core.receive(.update(3), .update(4))
        core.receive(.alert(5))
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u2 accepted 1", "u5 accepted 2"])
    }

    /// The result of u5 may count the superseded alert u2 only if u5 has an alert of its own, or its rider has one.
    /// Here u5 has no alert and no rider.
    @Test func `A superseded alert has its own result`() {
        let core = makeCountingCore()
        core.receive(.alert(4))
        core.reply(.send)
        core.push()
        core.receive(.alert(2), .update(5))
        #expect(resultsWithCounts(core) == ["u2 superseded 0"])
    }

    /// Redis releases the held command u4 with an alert. This alert may belong to the older command u3. So u3 must have
    /// a result of its own, and the result of u4 must not count it.
    @Test func `An alert that a released command already carries has its own result`() {
        let core = makeCountingCore()
        core.receive(.update(1))
        core.register(CommandText.registration())
        core.reply(.send)
        core.push()
        core.reply(.registered, held: .alert(4))
        core.receive(.alert(3))
        #expect(resultsWithCounts(core) == ["u3 superseded 0"])
    }

    @Test func `An alert that does not fit has a result that says so`() {
        let core = makeCountingCore()
        let filler = String(repeating: "x", count: 3_990)
        core.receive(.alert(1), .update(2, beside: #""payload":{"x":"\#(filler)"},"#))
        #expect(resultsWithCounts(core) == ["u1 superseded 0"])
        #expect(core.results.first?.reason == "alertDidNotFit")
    }

    @Test func `A replaced carrier is counted, and its alert moves to the newer state`() throws {
        let core = makeCountingCore()
        core.receive(.alert(1), .update(2), .update(3))
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(1)))
        core.respond(.accepted)
        #expect(resultsWithCounts(core).sorted() == ["u1 superseded 0", "u3 accepted 1"])
    }

    @Test func `A start has its own result`() {
        let core = makeCountingCore()
        core.receive(.start(1), .start(2))
        #expect(resultsWithCounts(core) == ["s1 superseded 0"])
    }

    @Test func `A released command has its own result`() {
        let core = makeCountingCore()
        core.receive(.update(0))
        core.receive(.update(2))
        core.register(CommandText.registration())
        core.reply(.registered, held: .update(1), toNewest: true)
        #expect(resultsWithCounts(core) == ["u1 superseded 0"], "its first result was held")
        core.admitAndRespond()
        core.elapseSpacing()
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u1 superseded 0", "u0 accepted 0", "u2 accepted 0"])
    }

    /// The update u7 replaces u6, which carries the alert of u2. u6 is only counted, so its slot is freed. The alert
    /// must still move to the late end e3.
    @Test func `A counted current command gives its older alert to a late end`() throws {
        let core = makeCountingCore()
        core.receive(.alert(2), .update(6))
        core.loseRedis(isBusy: true)
        core.receive(.end(3))
        core.receive(.update(7))
        core.elapse(5_000)
        #expect(core.outstandingCalls == ["admit e3"])
        core.reply(.send)
        #expect(try #require(core.push()).body.contains(CommandText.alertText(2)))
    }

    @Test func `The result of an expired command has its count`() {
        let core = makeCountingCore()
        let nowSeconds = CoreHarness.startSeconds
        core.receive(.update(0))
        core.receive(.update(1), CommandText.update(2, beside: #""expiration":\#(nowSeconds + 1),"#))
        core.elapse(5_000)
        core.admitAndRespond()
        core.elapseSpacing()
        #expect(resultsWithCounts(core) == ["u0 accepted 0", "u2 expired 1"])
    }

    @Test func `An invalid record still goes to the dead letters`() {
        let core = makeCountingCore()
        core.receive(.update(1), "{", .update(2))
        #expect(core.deadLetters.count == 1)
        #expect(core.results.map(\.outcome) == ["invalid"])
    }

    @Test func `A counted record with a trace settles only when the trace is exported`() {
        let core = makeCountingCore()
        core.receiveOne(.update(1), partition: core.commandsPartition, trace: "t")
        core.receiveOne(.update(2), partition: core.commandsPartition)
        core.endBatch()
        #expect(core.endedTraces == ["u1"] && core.outcomes == [])
        #expect(core.committableOffset == 0)
        core.report(.acknowledged, on: .traceOnly)
        #expect(core.committableOffset == 1)
        core.admitAndRespond()
        #expect(resultsWithCounts(core) == ["u2 accepted 1"])
    }
}
