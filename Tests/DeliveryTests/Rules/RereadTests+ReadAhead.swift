import Delivery
import Testing

/// While a partition is read again, the lane reads ahead until it has received all reread records (R25).
extension RereadTests {
    /// Redis may have lost the versions of all three states, so it would let each be sent.
    @Test func `Of the states of an activity that are read again, only the newest is sent`() {
        let core = CoreHarness()
        core.reread(below: 3)
        for (second, unreadCount) in [(1, 2), (2, 1)] as [(Int64, Int64)] {
            core.receiveOne(.update(second), partition: core.commandsPartition)
            core.noteLag(unreadCount)
            core.endBatch()
            core.elapse(5_000)
            #expect(core.outstandingCalls == [], "a newer state is still unread")
        }
        core.receiveOne(.update(3), partition: core.commandsPartition)
        core.noteLag(0)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit u3"])
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u3 accepted"] && core.committableOffset == 3)
    }

    /// Offsets 0 and 1 were settled before. A lag of 1 record counts as nearly caught up.
    @Test func `Behind the last reread record, a lane reads ahead no longer than usual`() {
        let core = makeRereadingCore()
        for (second, unreadCount) in [(1, 2), (2, 1)] as [(Int64, Int64)] {
            core.receiveOne(.update(second), partition: core.commandsPartition)
            core.noteLag(unreadCount)
            core.endBatch()
        }
        core.elapse(1_999)
        #expect(core.outstandingCalls == [], "the last unread record may replace u2")
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u2"])
        core.receiveOne(.update(1, of: "b"), partition: core.commandsPartition)
        core.noteLag(1)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit u2", "admit b.u1"])
    }

    /// The lag of 2 records was already small while the partition was read again.
    @Test func `A small lag during a rereading does not delay the lane after it`() {
        let core = makeRereadingCore()
        for (second, unreadCount) in [(1, 3), (2, 2)] as [(Int64, Int64)] {
            core.elapse(2_000)
            #expect(core.outstandingCalls == [])
            core.receiveOne(.update(second), partition: core.commandsPartition)
            core.noteLag(unreadCount)
            core.endBatch()
            core.noteLag(unreadCount)
        }
        core.elapse(1)
        #expect(core.outstandingCalls == ["admit u2"])
    }

    /// For example, the leader of the partition is lost while the partition is read again.
    @Test func `A rereading that makes no progress delays the lane only once`() {
        let core = CoreHarness { $0.reloadable.readAheadMillisecondsMax = 5_000 }
        let otherPartition = core.assign(.commands, number: 1)
        core.reread(below: 3)
        core.receiveOne(.update(1), partition: core.commandsPartition)
        core.noteLag(2)
        core.receive(.update(1, of: "b"), partition: otherPartition)
        core.elapse(4_999)
        #expect(core.outstandingCalls == [])
        core.elapse(1)
        #expect(core.outstandingCalls.count == 2)
        core.noteLag(2)
        core.elapse(1)
        core.receive(.update(1, of: "c"), partition: otherPartition)
        #expect(core.outstandingCalls.last == "admit c.u1")
    }

    /// At the last settled offsets are transaction markers, which no reader gets.
    @Test func `A rereading ends with the log`() {
        let core = CoreHarness()
        core.reread(below: 3)
        core.receiveOne(.update(1), partition: core.commandsPartition)
        core.noteLag(0)
        core.endBatch()
        #expect(core.outstandingCalls == ["admit u1"])
    }

    @Test func `Reread records do not count as a backlog that needs no results`() {
        let core = CoreHarness { $0.supersededResults = .countedWhenBehind }
        core.reread(below: 1)
        core.noteLag(3)
        core.receive(.update(1), .update(2), .update(3))
        #expect(core.outcomes == ["u2 superseded"] && core.outstandingCalls == [])
    }
}
