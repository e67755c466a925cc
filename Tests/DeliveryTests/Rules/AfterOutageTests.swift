import Delivery
import LiveActivity
import Testing

/// When Redis or APNs is reachable again after an outage, a lane with unread records reads ahead before it sends what
/// waited. (R21)
@Suite struct AfterOutageTests {
    /// Returns a core that counts as nearly caught up below half of its limit: with fewer than 50 unread records.
    private static func makeCore(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> CoreHarness {
        CoreHarness {
            $0.reloadable.readAheadLagRecords = 100
            $0.reloadable.readAheadMillisecondsMax = 20_000
            $0.supersededResults = .each
            change(&$0)
        }
    }

    /// Returns a core with `lag` unread records. Redis was silent for the given time, so the command u1 got no reply.
    /// Now Redis takes calls again.
    private static func makeCoreAfterStoreOutage(after milliseconds: Int64, lag: Int64) -> CoreHarness {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.noteLag(lag)
        core.elapse(1)
        core.elapse(milliseconds)
        core.loseRedis()
        return core
    }

    /// Returns a core with `lag` unread records. Its command u1 has waited for a pool that accepted nothing for the
    /// given time.
    private static func makeCoreAfterPoolOutage(after milliseconds: Int64, lag: Int64) -> CoreHarness {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.reply(.send)
        core.noteLag(lag)
        core.elapse(milliseconds)
        return core
    }

    // MARK: - Redis

    @Test func `After an outage Redis gets no call until the lane has caught up`() {
        let core = Self.makeCoreAfterStoreOutage(after: 5_000, lag: 60)
        #expect(core.outstandingCalls == [])
        core.receive(.update(2))
        core.elapse(10_000)
        #expect(core.outstandingCalls == [])
        core.noteLag(0)
        #expect(core.outcomes == ["u1 superseded"])
        #expect(core.outstandingCalls == ["admit u2"])
    }

    @Test func `A silence of Redis that is shorter than five seconds delays no call`() {
        #expect(Self.makeCoreAfterStoreOutage(after: 4_990, lag: 60).outstandingCalls == ["admit u1"])
    }

    @Test func `A time without calls does not count as an outage of Redis`() {
        let core = Self.makeCore()
        core.receive(.update(1, of: "b"))
        core.reply(.unchanged)
        core.noteLag(60)
        core.elapse(60_000)
        core.receive(.update(1))
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `After an outage a lane without unread records makes its calls at once`() {
        #expect(Self.makeCoreAfterStoreOutage(after: 60_000, lag: 0).outstandingCalls == ["admit u1"])
    }

    @Test func `A lane that has nearly caught up reads for two more seconds`() throws {
        let core = Self.makeCoreAfterStoreOutage(after: 5_000, lag: 40)
        core.elapse(1_999)
        #expect(core.outstandingCalls == [])
        #expect(try #require(core.nextDueMilliseconds) <= core.now.monotonicMilliseconds + 50)
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `Reading ahead after an outage has a time limit`() {
        let core = Self.makeCoreAfterStoreOutage(after: 5_000, lag: 60)
        core.elapse(19_999)
        #expect(core.outstandingCalls == [])
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `A lane that is more than three quarters full does not read ahead after an outage`() {
        let core = Self.makeCore { $0.recordsMax = 64 }
        for number in 0..<49 { core.receive(.update(1, of: "a\(number)")) }
        core.noteLag(60)
        core.elapse(1)
        core.elapse(5_000)
        core.loseRedis()
        #expect(core.outstandingCalls.count == 49)
    }

    // MARK: - APNs

    @Test func `After an outage of APNs, a newer state replaces a push that waited`() throws {
        let core = Self.makeCoreAfterPoolOutage(after: 5_000, lag: 60)
        #expect(core.push() == nil)
        core.receive(.update(2))
        core.noteLag(0)
        #expect(core.push() == nil)
        #expect(core.outcomes == ["u1 superseded"])
        core.reply(.send)
        #expect(try #require(core.push()).command == "u2")
    }

    @Test func `After an outage of APNs, a push without a newer state is sent`() throws {
        let core = Self.makeCoreAfterPoolOutage(after: 60_000, lag: 60)
        #expect(core.push() == nil)
        core.noteLag(0)
        #expect(try #require(core.push()).command == "u1")
    }

    @Test func `A pool that accepts pushes is not delayed`() throws {
        let core = Self.makeCore()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.send)
        core.reply(.send)
        core.noteLag(60)
        core.elapse(3_000)
        core.push()
        core.elapse(1_000)
        core.respond(.accepted)
        core.elapse(3_000)
        #expect(try #require(core.push()).command == "b.u1", "APNs responded 3 s ago")
    }

    @Test func `A 503 does not end the outage of a pool`() {
        let core = Self.makeCore()
        core.receive(.update(1), .update(1, of: "b"))
        core.reply(.send)
        core.reply(.send)
        core.noteLag(60)
        core.elapse(3_000)
        core.push()
        core.respond(.retryLater, status: 503)
        core.elapse(2_000)
        #expect(core.push() == nil)
    }

    @Test func `The outage of one pool does not delay another pool`() throws {
        let core = Self.makeCoreAfterPoolOutage(after: 60_000, lag: 60)
        #expect(core.push() == nil)
        core.receive(.update(1, of: "b"))
        core.reply(.send, environment: .sandbox)
        #expect(try #require(core.push(environment: .sandbox)).command == "b.u1")
    }

    // MARK: - An assignment

    /// Until the end of the log is known, the shell assumes a lag above `readAheadLagRecords`. The real lag may be
    /// smaller.
    @Test func `After an assignment a lane reads to the end, even if the lag is small`() {
        let core = Self.makeCore()
        core.noteLag(101, isGuess: true)
        core.receive(.update(1))
        core.noteLag(60)
        core.elapse(2_000)
        core.receive(.update(2))
        #expect(core.outstandingCalls == [])
        core.noteLag(0)
        #expect(core.outstandingCalls == ["admit u2"])
    }
}
