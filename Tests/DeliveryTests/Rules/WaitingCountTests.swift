import Delivery
import LiveActivity
import Testing

/// A record counts in at most one place: it waits for Redis, it waits for a stream, or it is finished and waits for its
/// acknowledgements. Metrics show these counts.
@Suite struct WaitingCountTests {
    @Test func `A record is counted at the place where it waits`() {
        let core = CoreHarness()
        let pool = PoolTarget(appIndex: 0, environment: .production)
        core.receive(.update(1))
        #expect(core.recordsAwaitingStoreCount == 1 && core.unacknowledgedRecordCount == 0)
        core.reply(.send)
        #expect(core.recordsAwaitingStoreCount == 0 && core.waitingPushCount(of: pool) == 1)
        core.push()
        #expect(core.waitingPushCount(of: pool) == 0 && core.unacknowledgedRecordCount == 0)
        core.respond(.accepted)
        #expect(core.unacknowledgedRecordCount == 1 && core.recordsAwaitingStoreCount == 0)
        core.acknowledgeAll()
        #expect(core.unacknowledgedRecordCount == 0 && core.inProgressRecordCount == 0)
    }

    @Test func `Finished tombstones and refused calls no longer count as waiting`() {
        let core = CoreHarness()
        core.unregister(key: "a")
        #expect(core.recordsAwaitingStoreCount == 1)
        while !core.calls.isEmpty { core.reply(.unregistered) }
        #expect(core.recordsAwaitingStoreCount == 0 && core.inProgressRecordCount == 0)
        core.receive(.update(1))
        core.refuseOldestCall("no")
        #expect(core.recordsAwaitingStoreCount == 0 && core.unacknowledgedRecordCount == 1)
        core.acknowledgeAll()
        #expect(core.unacknowledgedRecordCount == 0)
    }

    @Test func `Replaced commands are counted for their app`() {
        let core = CoreHarness()
        core.receive(.update(1), .update(2), .update(3))
        #expect(core.counters(of: 0).replacedCommandCount == 2)
    }

    @Test func `The core knows since when its oldest unsettled record waits`() {
        let core = CoreHarness()
        #expect(core.oldestUnsettledSinceMilliseconds(core.commandsPartition) == nil)
        core.receive(.update(1))
        let unsettledSinceMilliseconds = core.oldestUnsettledSinceMilliseconds(core.commandsPartition)
        core.elapse(5_000)
        core.receive(.update(1, of: "b"))
        #expect(core.oldestUnsettledSinceMilliseconds(core.commandsPartition) == unsettledSinceMilliseconds)
        for _ in 0..<2 { core.admitAndRespond() }
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
        #expect(core.oldestUnsettledSinceMilliseconds(core.commandsPartition) == nil)
    }
}
