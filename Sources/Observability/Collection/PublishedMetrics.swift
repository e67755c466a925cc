import Synchronization

/// A thread's numbers for one partition.
public struct PartitionReading: BitwiseCopyable, Sendable {
    /// The index of the topic in ``LabelValues/topics``.
    public var topicIndex: Int32
    public var partition: Int32
    /// The age of the oldest unsettled record, or 0 if there is none. Only lanes know it: the Kafka thread publishes
    /// -1.
    public var oldestUnsettledAgeMilliseconds: Int64
    /// The offset below which all records are settled; -1 if unknown. Only lanes know it: the Kafka thread publishes
    /// -1.
    public var committableOffset: Int64
    /// The number of records from the first unsettled one to the partition's end, without deferred records that are not
    /// due; -1 if unknown. Only the Kafka thread knows this number: lanes publish -1.
    public var lagRecordCount: Int64

    public init(
        topicIndex: Int32,
        partition: Int32,
        oldestUnsettledAgeMilliseconds: Int64 = -1,
        committableOffset: Int64 = -1,
        lagRecordCount: Int64 = -1
    ) {
        self.topicIndex = topicIndex
        self.partition = partition
        self.oldestUnsettledAgeMilliseconds = oldestUnsettledAgeMilliseconds
        self.committableOffset = committableOffset
        self.lagRecordCount = lagRecordCount
    }
}

/// One thread's numbers, for other threads to read. The publishing thread never waits for a reader.
public final class PublishedMetrics: Sendable {
    /// The maximum number of partitions that one thread publishes numbers for.
    public static let partitionsMax = 4_096

    /// The thread's name in logs and in the operating system.
    public let threadName: String
    let layout: MetricLayout
    /// The time of the thread's last iteration (pass of its event loop), by the monotonic clock; -1 before its first
    /// iteration.
    private let lastIterationAtMilliseconds = Atomic<Int64>(-1)
    /// Before this time (monotonic clock), `/livez` does not report the thread as stuck, even if it runs no iteration.
    private let iterationPauseEndMilliseconds = Atomic<Int64>(.min)
    private let lastPublication: Mutex<Publication>

    private struct Publication {
        var cells: [Int64]
        var partitions: [PartitionReading] = []
    }

    /// A copy of the last published numbers.
    struct Snapshot {
        var cells: [Int64]
        var partitions: [PartitionReading]
    }

    init(threadName: String, layout: MetricLayout) {
        self.threadName = threadName
        self.layout = layout
        lastPublication = Mutex(Publication(cells: [Int64](repeating: 0, count: layout.cellCount)))
    }

    /// Replaces the published numbers, unless a reader has the lock at this moment.
    ///
    /// - Returns: whether the numbers were replaced.
    func publish(
        _ cells: UnsafeBufferPointer<Int64>,
        partitions: UnsafeBufferPointer<PartitionReading>,
        nowMilliseconds: Int64
    ) -> Bool {
        noteIteration(nowMilliseconds: nowMilliseconds)
        let publishedPartitions = UnsafeBufferPointer(rebasing: partitions.prefix(Self.partitionsMax))
        let writeResult: Void? = lastPublication.withLockIfAvailable { publication in
            precondition(publication.cells.count == cells.count, "one layout for all threads")
            publication.cells.withUnsafeMutableBufferPointer { _ = $0.update(from: cells) }
            publication.partitions.removeAll(keepingCapacity: true)
            publication.partitions.append(contentsOf: publishedPartitions)
        }
        return writeResult != nil
    }

    /// Notes that the thread runs an iteration. ``publish(_:partitions:nowMilliseconds:)`` calls this.
    public func noteIteration(nowMilliseconds: Int64) {
        lastIterationAtMilliseconds.store(nowMilliseconds, ordering: .relaxed)
    }

    /// Notes that the thread is not stuck if it runs no iteration before this time. For example, the thread makes a
    /// blocking call to close a client, or its loop has ended.
    public func noteIterationPause(untilMilliseconds: Int64) {
        iterationPauseEndMilliseconds.store(untilMilliseconds, ordering: .relaxed)
    }

    /// Returns the time since the thread's last iteration; nil before the first one. During a pause that the thread has
    /// noted (``noteIterationPause(untilMilliseconds:)``), returns 0. After the pause, returns the time since the
    /// pause's end, until the thread runs its next iteration.
    func iterationAgeMilliseconds(nowMilliseconds: Int64) -> Int64? {
        let lastAtMilliseconds = lastIterationAtMilliseconds.load(ordering: .relaxed)
        guard lastAtMilliseconds >= 0 else { return nil }
        return max(0, nowMilliseconds - max(lastAtMilliseconds, iterationPauseEndMilliseconds.load(ordering: .relaxed)))
    }

    /// Returns a copy of the last published numbers, made element by element. If it shared an array with
    /// `lastPublication`, the publishing thread would have to copy this array at its next publication.
    func read() -> Snapshot {
        lastPublication.withLock { publication in
            Snapshot(
                cells: publication.cells.withUnsafeBufferPointer { cells in
                    [Int64](unsafeUninitializedCapacity: cells.count) { buffer, count in
                        _ = buffer.initialize(from: cells)
                        count = cells.count
                    }
                },
                partitions: publication.partitions.withUnsafeBufferPointer { partitions in
                    [PartitionReading](unsafeUninitializedCapacity: partitions.count) { buffer, count in
                        _ = buffer.initialize(from: partitions)
                        count = partitions.count
                    }
                }
            )
        }
    }
}
