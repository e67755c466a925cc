import Synchronization

/// A partition that is to be read once more.
struct RereadingRequest: Sendable {
    var topic: Int32
    var partition: Int32
    var assignment: UInt32
    /// The first offset that is missing; nil: all of it may be.
    var from: Int64?
    /// Goes into the marks, so that it is seen if they are lost again.
    var reader: UInt64
    /// Redis had forgotten the partition, rather than its newest records only.
    var isEmptied: Bool
}

/// What passes between the Kafka thread, which has the partitions, and the watch over Redis.
final class RereadingBoard: Sendable {
    private struct State {
        var standings: [PartitionStanding] = []
        var registrationPartitions: Int?
        var requests: [RereadingRequest] = []
    }

    private let state = Mutex(State())
    private let hasRequests = Atomic<Bool>(false)

    var standings: [PartitionStanding] { state.withLock(\.standings) }

    /// How many partitions the registrations topic has; nil: not known yet.
    var registrationPartitions: Int? { state.withLock(\.registrationPartitions) }

    func publish(_ standings: [PartitionStanding], registrationPartitions: Int?) {
        state.withLock {
            $0.standings = standings
            $0.registrationPartitions = registrationPartitions
        }
    }

    func request(_ requests: [RereadingRequest]) {
        state.withLock { $0.requests += requests }
        hasRequests.store(true, ordering: .releasing)
    }

    func takeRequests() -> [RereadingRequest] {
        guard hasRequests.load(ordering: .relaxed), hasRequests.exchange(false, ordering: .acquiring) else { return [] }
        return state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }
}
