import Synchronization

/// A thread's numbers for one partition.
public struct PartitionReading: BitwiseCopyable, Sendable {
    /// The number of the topic in ``LabelSpace/topics``.
    public var topic: Int32
    public var partition: Int32
    /// Lanes: the age of the oldest unsettled record, 0 if there is none. -1 if this thread does not provide it.
    public var oldestUnsettledMilliseconds: Int64
    /// Lanes: the offset below which all records are settled. -1 if not provided, or not known yet.
    public var watermark: Int64
    /// Kafka thread: the number of records from the next one to be settled. -1 if not provided, or not known yet.
    public var lag: Int64

    public init(
        topic: Int32,
        partition: Int32,
        oldestUnsettledMilliseconds: Int64 = -1,
        watermark: Int64 = -1,
        lag: Int64 = -1
    ) {
        self.topic = topic
        self.partition = partition
        self.oldestUnsettledMilliseconds = oldestUnsettledMilliseconds
        self.watermark = watermark
        self.lag = lag
    }
}

/// Publishes one thread's numbers for other threads to read. The thread never waits for a reader.
public final class PublishedMetrics: Sendable {
    /// The most partitions of one thread that are shown.
    public static let partitionsMax = 4_096

    /// The thread's name in logs and in the system.
    public let thread: String
    let layout: MetricLayout
    /// The time of the thread's last turn, by the monotonic clock; -1 before its first turn.
    private let beatMilliseconds = Atomic<Int64>(-1)
    /// Until when the thread may be quiet, by the monotonic clock.
    private let quietUntilMilliseconds = Atomic<Int64>(.min)
    private let page: Mutex<Page>

    private struct Page {
        var cells: [Int64]
        var partitions: [PartitionReading] = []
    }

    /// A copy of the last published numbers.
    struct Reading {
        var cells: [Int64]
        var partitions: [PartitionReading]
    }

    init(thread: String, layout: MetricLayout) {
        self.thread = thread
        self.layout = layout
        page = Mutex(Page(cells: [Int64](repeating: 0, count: layout.cellCount)))
    }

    /// - Returns: false if a reader holds the page at this moment.
    func publish(
        _ cells: UnsafeBufferPointer<Int64>,
        partitions: UnsafeBufferPointer<PartitionReading>,
        nowMilliseconds: Int64
    ) -> Bool {
        beat(nowMilliseconds: nowMilliseconds)
        let shown = UnsafeBufferPointer(rebasing: partitions.prefix(Self.partitionsMax))
        let isTaken: Void? = page.withLockIfAvailable { page in
            precondition(page.cells.count == cells.count, "one layout for all threads")
            page.cells.withUnsafeMutableBufferPointer { _ = $0.update(from: cells) }
            page.partitions.removeAll(keepingCapacity: true)
            page.partitions.append(contentsOf: shown)
        }
        return isTaken != nil
    }

    /// Shows that the thread turns. Publishing does so too; this method is for a thread that cannot publish.
    public func beat(nowMilliseconds: Int64) {
        beatMilliseconds.store(nowMilliseconds, ordering: .relaxed)
    }

    /// Announces that the thread makes no progress until this time, because it makes a blocking call such as closing a client.
    public func expectQuiet(untilMilliseconds: Int64) {
        quietUntilMilliseconds.store(untilMilliseconds, ordering: .relaxed)
    }

    /// The time since the thread last turned, or since the end of an announced quiet time; nil before its first turn.
    func silenceMilliseconds(nowMilliseconds: Int64) -> Int64? {
        let beat = beatMilliseconds.load(ordering: .relaxed)
        guard beat >= 0 else { return nil }
        return max(0, nowMilliseconds - max(beat, quietUntilMilliseconds.load(ordering: .relaxed)))
    }

    /// Copies the numbers element by element: a shared array would make the publishing thread copy it at its next write.
    func read() -> Reading {
        page.withLock { page in
            Reading(
                cells: page.cells.withUnsafeBufferPointer { cells in
                    [Int64](unsafeUninitializedCapacity: cells.count) { buffer, count in
                        _ = buffer.initialize(from: cells)
                        count = cells.count
                    }
                },
                partitions: page.partitions.withUnsafeBufferPointer { partitions in
                    [PartitionReading](unsafeUninitializedCapacity: partitions.count) { buffer, count in
                        _ = buffer.initialize(from: partitions)
                        count = partitions.count
                    }
                }
            )
        }
    }
}
