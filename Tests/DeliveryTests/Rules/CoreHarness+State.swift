import Delivery
import LiveActivity
import Testing

extension CoreHarness {
    /// All results so far, as `u1 accepted`.
    var outcomes: [String] { results.map { "\($0.command) \($0.outcome)" } }

    var acceptedResultCount: Int { results.count { $0.outcome == "accepted" } }

    /// The calls without a reply, except settlements (`isSettlement`), as `admit u1`.
    var outstandingCalls: [String] {
        calls.filter { !$0.isSettlement }.map { "\($0.ticket.purpose) \(delivery.view($0.ticket.record).name)" }
    }

    var committableOffset: Int64? { committableOffset(commandsPartition) }

    // Tests read the core through these properties and functions, because a test macro cannot use a noncopyable value.
    var canReceive: Bool { delivery.canReceive }
    var inProgressRecordCount: Int { delivery.inProgressRecordCount }
    var nextDueMilliseconds: Int64? { delivery.nextDueMilliseconds }
    var unacknowledgedRecordCount: Int { delivery.unacknowledgedRecordCount }
    var recordsAwaitingStoreCount: Int { delivery.recordsAwaitingStoreCount }
    func counters(of appIndex: Int) -> AppCounters { delivery.counters(of: appIndex) }
    func waitingPushCount(of pool: PoolTarget) -> Int { delivery.waitingPushCount(of: pool) }
    func oldestUnsettledSinceMilliseconds(_ partitionIndex: UInt32) -> Int64? {
        delivery.oldestUnsettledSinceMilliseconds(partitionIndex)
    }
    func hasRoom(for offset: Int64, partition partitionIndex: UInt32) -> Bool {
        delivery.hasRoom(for: offset, partition: partitionIndex)
    }
    func hasReadyPush(_ pool: PoolTarget) -> Bool { delivery.hasReadyPush(pool) }
    func isDrained(_ partitionIndex: UInt32) -> Bool { delivery.isDrained(partitionIndex) }
    func unsettledRecordCount(_ partitionIndex: UInt32) -> Int { delivery.unsettledRecordCount(partitionIndex) }
    func committableOffset(_ partitionIndex: UInt32) -> Int64? { delivery.committableOffset(partitionIndex) }

    /// The oldest call without a reply, of any kind. Throws if there is none.
    var oldestCall: StoreCall<[UInt8]> {
        get throws { try #require(calls.first) }
    }

    /// Delays the next call, as a lane does while the call's server is unavailable. Returns the call, as `admit u1`;
    /// nil if there is none.
    func delayNextCallForUnavailableServer() -> String? {
        guard let ticket = delivery.withNextStoreCall(now: now, { $0.ticket }) else { return nil }
        let call = "\(ticket.purpose) \(delivery.view(ticket.record).name)"
        delivery.delayNextStoreCallForUnavailableServer(now: now)
        return call
    }

    /// The record of the oldest call without a reply. Throws if there is none.
    var oldestCallView: RecordView {
        get throws { delivery.view(try #require(calls.first).ticket.record) }
    }
}
