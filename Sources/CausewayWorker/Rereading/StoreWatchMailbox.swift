import Synchronization

/// What the Kafka thread and `StoreWatch` share. The Kafka thread publishes how far it is with each partition that it
/// reads. `StoreWatch` reads Redis' marks, and requests here that partitions are read again.
final class StoreWatchMailbox: Sendable {
    private struct Contents {
        var partitionStatuses: [PartitionRereadingStatus] = []
        var registrationPartitionCount: Int?
        var requests: [RereadingRequest] = []
        var markedAssignmentNumbers: Set<UInt32> = []
    }

    private let contents = Mutex(Contents())
    /// Whether there are requests. The Kafka thread checks this in every iteration, and takes the lock only if there
    /// are some.
    private let hasRequests = Atomic<Bool>(false)

    var partitionStatuses: [PartitionRereadingStatus] { contents.withLock(\.partitionStatuses) }

    /// The number of partitions of the registrations topic; nil: not known yet.
    var registrationPartitionCount: Int? { contents.withLock(\.registrationPartitionCount) }

    /// The assignments whose partitions have a mark, complete or incomplete, on each primary that replied.
    var markedAssignmentNumbers: Set<UInt32> { contents.withLock(\.markedAssignmentNumbers) }

    func publishMarks(of assignmentNumbers: Set<UInt32>) {
        contents.withLock { $0.markedAssignmentNumbers = assignmentNumbers }
    }

    func publish(_ statuses: [PartitionRereadingStatus], registrationPartitionCount: Int?) {
        contents.withLock {
            $0.partitionStatuses = statuses
            $0.registrationPartitionCount = registrationPartitionCount
        }
    }

    func request(_ requests: [RereadingRequest]) {
        contents.withLock { $0.requests += requests }
        hasRequests.store(true, ordering: .releasing)
    }

    func takeRequests() -> [RereadingRequest] {
        guard hasRequests.load(ordering: .relaxed), hasRequests.exchange(false, ordering: .acquiring) else { return [] }
        return contents.withLock { contents in
            defer { contents.requests = [] }
            return contents.requests
        }
    }
}

/// A request to the Kafka thread to read a partition again.
struct RereadingRequest: Sendable {
    var topic: Int32
    var partition: Int32
    var assignmentNumber: UInt32
    /// The first offset whose record may have written something that Redis lacks. Nil: this may be any record of the
    /// partition.
    var firstMissingOffset: Int64?
    /// A random number that identifies this rereading. `StoreWatch` writes it into the marks. If Redis loses data again
    /// during the rereading, the marks lack this number, so `StoreWatch` notices the second loss.
    var rereadingIdentifier: UInt64
    /// Whether a primary had lost the partition's mark, and so probably all its data, not only its newest writes.
    var isPrimaryEmptied: Bool
}
