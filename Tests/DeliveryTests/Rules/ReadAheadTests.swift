import Delivery
import LiveActivity
import Testing

/// A lane that is far behind reads ahead and keeps the newest state of each activity. The lane admits these states when
/// it has caught up or nearly so, is more than three quarters full, or has reached a time limit. (R21)
@Suite struct ReadAheadTests {
    private static func makeCore(_ change: (inout DeliveryConfiguration) -> Void = { _ in }) -> CoreHarness {
        CoreHarness {
            $0.reloadable.readAheadLagRecords = 100
            $0.supersededResults = .each
            change(&$0)
        }
    }

    @Test func `A lane that is far behind begins nothing until it has caught up`() {
        let core = Self.makeCore()
        core.noteLag(101)
        core.receive(.update(1), .update(1, of: "b"))
        core.receive(.update(2))
        core.elapse(1_000)
        #expect(core.outstandingCalls == [])
        #expect(core.outcomes == ["u1 superseded"], "a replaced command has its result at once")
        core.noteLag(50)
        #expect(core.outstandingCalls == [], "a lag of half the limit does not count as nearly caught up")
        core.noteLag(1)
        #expect(core.outstandingCalls == [], "the last unread record may replace u2 or b.u1")
        core.noteLag(0)
        #expect(core.outstandingCalls == ["admit u2", "admit b.u1"])
        core.receive(.update(1, of: "c"))
        #expect(core.outstandingCalls.last == "admit c.u1")
    }

    @Test func `A lane that has nearly caught up waits for the rest, but not for long`() throws {
        let core = Self.makeCore()
        core.noteLag(1_000)
        core.receive(.update(1))
        core.noteLag(49)
        core.elapse(1_999)
        #expect(core.outstandingCalls == [])
        core.noteLag(50)
        core.elapse(10)
        #expect(core.outstandingCalls == [], "a lag of half the limit does not count as nearly caught up")
        core.noteLag(49)
        core.elapse(1_999)
        core.noteLag(3)
        #expect(core.outstandingCalls == [])
        #expect(try #require(core.nextDueMilliseconds) == core.now.monotonicMilliseconds + 1)
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u1"])
        core.receive(.update(1, of: "b"))
        #expect(core.outstandingCalls == ["admit u1", "admit b.u1"])
    }

    @Test func `A lane whose lag is not above the limit does not read ahead`() {
        let core = Self.makeCore()
        core.noteLag(100)
        core.receive(.update(1))
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `The lag is the sum over all partitions of commands`() {
        let core = Self.makeCore()
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(60)
        core.noteLag(60, of: secondPartition)
        core.noteLag(10_000, of: core.registrationsPartition)
        core.receive(.update(1))
        #expect(core.outstandingCalls == [])
        core.noteLag(0)
        core.noteLag(0, of: secondPartition)
        #expect(core.outstandingCalls == ["admit u1"])
        core.noteLag(60)
        core.noteLag(-5)
        core.receive(.update(1, of: "b"))
        #expect(core.outstandingCalls == ["admit u1", "admit b.u1"])
    }

    @Test func `Registrations do not wait while the lane reads ahead`() {
        let core = Self.makeCore()
        core.noteLag(1_000)
        core.register(CommandText.registration())
        #expect(core.outstandingCalls == ["registerToken a"])
        core.reply(.registered, held: .update(1))
        #expect(core.outstandingCalls == [], "the released command waits like any other")
    }

    @Test func `While the lane reads ahead, a command in progress continues, and later ones wait`() {
        let core = Self.makeCore()
        core.receive(.update(1))
        core.noteLag(1_000)
        core.receive(.update(2))
        core.admitAndRespond()
        #expect(core.outcomes == ["u1 accepted"])
        core.elapse(2_000)
        #expect(core.outstandingCalls == [])
        core.receive(.update(3))
        core.noteLag(0)
        #expect(core.outstandingCalls == ["admit u3"])
    }

    @Test func `Reading ahead has a time limit`() throws {
        let core = Self.makeCore { $0.reloadable.readAheadMillisecondsMax = 5_000 }
        core.noteLag(1_000)
        core.receive(.update(1))
        core.elapse(4_999)
        #expect(core.outstandingCalls == [])
        let dueMilliseconds = try #require(core.nextDueMilliseconds)
        #expect(dueMilliseconds == core.now.monotonicMilliseconds + 1)
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u1"])
        core.reply(.unchanged)
        core.elapse(1)
        core.receive(.update(1, of: "b"))
        #expect(core.outstandingCalls == [], "the lane is still far behind, so it reads ahead again")
        core.elapse(5_000)
        #expect(core.outstandingCalls == ["admit b.u1"])
    }

    /// For example, the partition has no leader. Its unread records stay, so the lane is far behind for hours.
    @Test func `A partition that cannot be read makes the lane read ahead only once`() {
        let core = Self.makeCore { $0.reloadable.readAheadMillisecondsMax = 5_000 }
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(20_000)
        core.receive(.update(1, of: "b"), partition: secondPartition)
        core.elapse(4_999)
        core.noteLag(20_000)
        #expect(core.outstandingCalls == [])
        for _ in 0..<2 {
            core.elapse(1)
            core.noteLag(20_000)
        }
        core.receive(.update(1, of: "c"), partition: secondPartition)
        #expect(core.outstandingCalls == ["admit b.u1", "admit c.u1"])
        core.receiveOne(.update(1), partition: core.commandsPartition)
        core.noteLag(19_999)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit b.u1", "admit c.u1"], "the partition can be read again")
    }

    @Test func `A lane that is more than three quarters full begins its commands`() {
        let core = Self.makeCore { $0.recordsMax = 64 }
        core.noteLag(1_000)
        for number in 0..<48 { core.receive(.update(1, of: "a\(number)")) }
        core.elapse(1)
        #expect(core.outstandingCalls == [])
        core.receive(.update(1, of: "last"))
        core.elapse(1)
        #expect(core.outstandingCalls.count == 49)
        core.receive(.update(1, of: "more"))
        #expect(core.outstandingCalls.count == 50, "the lane also begins commands that come now")
        for _ in 0..<18 {
            core.reply(.unchanged)
            core.acknowledgeAll()
        }
        core.elapse(1)
        // Half of the lane's 64 slots are free again, so the lane reads ahead.
        core.receive(.update(1, of: "parked"))
        #expect(core.outstandingCalls.count == 32)
    }

    @Test func `A lane with a nearly full span begins the waiting commands`() {
        let core = Self.makeCore { $0.ledgerSpanOffsetCount = 64 }
        core.noteLag(1_000)
        for second in 1...48 { core.receive(.update(Int64(second))) }
        core.acknowledgeOutgoingRecords()
        core.elapse(1)
        #expect(core.outstandingCalls == [], "only the last of the 48 records is not settled")
        core.receive(.update(1, of: "b"))
        for second in 49...98 { core.receive(.update(Int64(second))) }
        core.acknowledgeOutgoingRecords()
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u98", "admit b.u1"])
    }

    /// The record waits for its activity's spacing. Records also wait for hours, for example while a partition of the
    /// results has no leader. The span of its ledger is nearly full for as long, but reading ahead is not the reason.
    @Test func `A span that an old record keeps nearly full does not end reading ahead`() {
        let core = Self.makeCore {
            $0.ledgerSpanOffsetCount = 64
            $0.reloadable.readAheadMillisecondsMax = 5_000
        }
        core.receive(.update(1))
        core.reply(.wait, waitMilliseconds: 10_000)
        for _ in 0..<56 { core.receive("{}") }
        core.acknowledgeOutgoingRecords()
        #expect(core.unsettledRecordCount(core.commandsPartition) == 1)
        core.elapse(5_001)
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(101, of: secondPartition)
        core.receive(.update(1, of: "b"), partition: secondPartition)
        core.elapse(1)
        #expect(core.outstandingCalls == [])
        core.receive(.update(2, of: "b"), partition: secondPartition)
        core.noteLag(0, of: secondPartition)
        #expect(core.outstandingCalls == ["admit b.u2"])
    }

    @Test func `A revoked partition does not stop the others`() {
        let core = Self.makeCore()
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(1_000)
        core.receive(.update(1))
        core.receive(.update(1, of: "b"), partition: secondPartition)
        core.beginRevoking(core.commandsPartition)
        #expect(core.outstandingCalls == ["admit b.u1"])
        #expect(core.isDrained(core.commandsPartition))
        core.elapse(1)
        core.receive(.update(1, of: "c"), partition: secondPartition)
        #expect(
            core.outstandingCalls == ["admit b.u1", "admit c.u1"],
            "the lag of the revoked partition no longer counts"
        )
    }

    /// Two partitions of the lane are revoked one after the other. Between these revocations, the core must not send
    /// commands of the second partition, because much newer states follow in its log.
    @Test func `A leaving partition does not start commands of partitions that are far behind`() {
        let core = Self.makeCore()
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(1_000)
        core.noteLag(1_000, of: secondPartition)
        core.receive(.update(1))
        core.receive(.update(1, of: "b"), partition: secondPartition)
        core.beginRevoking(core.commandsPartition)
        #expect(core.outstandingCalls == [])
        core.beginRevoking(secondPartition)
        #expect(core.outstandingCalls == [] && core.isDrained(secondPartition))
    }

    @Test func `A leaving partition does not prolong the reading ahead`() {
        let core = Self.makeCore { $0.reloadable.readAheadMillisecondsMax = 5_000 }
        let secondPartition = core.assign(.commands, number: 1)
        core.noteLag(1_000)
        core.noteLag(1_000, of: secondPartition)
        core.receive(.update(1, of: "b"), partition: secondPartition)
        core.elapse(4_999)
        core.beginRevoking(core.commandsPartition)
        #expect(core.outstandingCalls == [])
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit b.u1"])
    }

    @Test func `A newer state also carries an older alert while the lane reads ahead`() throws {
        let core = Self.makeCore()
        core.noteLag(1_000)
        core.receive(.alert(1))
        core.receive(.update(2))
        core.receive(.update(3))
        core.noteLag(0)
        core.reply(.send)
        #expect(try #require(core.push()).body.hasPrefix(AlertTests.bodyPrefix(withAlert: 1)))
    }

    /// The broker reports the end of its log, and may report a wrong number.
    @Test func `A wrong lag of any size does no harm`() {
        let core = Self.makeCore()
        let otherPartitions = (1...3).map { core.assign(.commands, number: $0) }
        core.receive(.update(1))
        for lag in [Int64.max, 1 << 62, .min, .max] {
            for partitionIndex in [core.commandsPartition] + otherPartitions { core.noteLag(lag, of: partitionIndex) }
        }
        core.receive(.update(1, of: "b"))
        #expect(core.outstandingCalls == ["admit u1"], "the lane reads ahead")
        for partitionIndex in [core.commandsPartition] + otherPartitions { core.noteLag(0, of: partitionIndex) }
        #expect(core.outstandingCalls == ["admit u1", "admit b.u1"], "the wrong lags have no later effect")
    }

    /// The number of pushes after a backlog depends on the number of activities, not on the number of commands.
    @Test func `200,000 commands for 2,000 activities become 2,000 pushes`() {
        let core = CoreHarness {
            $0.reloadable.readAheadLagRecords = 1_000
            $0.recordsMax = 131_072
            $0.ledgerSpanOffsetCount = 1 << 20
        }
        let (activityCount, commandsPerActivity) = (2_000, 100)
        var unreadCommandCount = Int64(activityCount * commandsPerActivity)
        for second in 1...commandsPerActivity {
            core.noteLag(unreadCommandCount)
            for activity in 0..<activityCount {
                core.receiveOne(.update(Int64(second), of: "m\(activity)"), partition: core.commandsPartition)
                unreadCommandCount -= 1
                guard activity % 500 == 499 else { continue }
                core.endBatch()
                core.elapse(10)
                core.acknowledgeOutgoingRecords()
            }
        }
        #expect(core.outstandingCalls == [])
        core.noteLag(unreadCommandCount)
        #expect(core.outstandingCalls.count == activityCount)
        for _ in 0..<activityCount { core.admitAndRespond() }
        core.acknowledgeAll()
        #expect(core.acceptedResultCount == activityCount)
        #expect(core.push() == nil)
        #expect(core.committableOffset == Int64(activityCount * commandsPerActivity))
    }
}
