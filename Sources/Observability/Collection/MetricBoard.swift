import Synchronization

/// What a thread tells of one partition.
public struct PartitionReading: BitwiseCopyable, Sendable {
    /// The number of the topic in ``LabelSpace/topics``.
    public var topic: Int32
    public var partition: Int32
    /// Lanes: age of the oldest unsettled record, 0 if there is none. -1: not told by this thread.
    public var oldestUnsettledMilliseconds: Int64
    /// Lanes: the offset below which all is settled. -1: not told, or not known yet.
    public var watermark: Int64
    /// Kafka thread: records behind the next one to be settled. -1: not told, or not known yet.
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

/// Where one thread's numbers are read by others. The thread never waits for a reader.
public final class MetricBoard: Sendable {
    /// Partitions of one thread that are shown one by one.
    public static let partitionsMax = 4_096

    /// As the thread is named in logs and by the system.
    public let thread: String
    let layout: MetricLayout
    /// When the thread last showed that it turns, monotonic; -1 before the first time.
    private let beatMilliseconds = Atomic<Int64>(-1)
    /// Until when the thread has said that it will not turn, monotonic.
    private let quietUntilMilliseconds = Atomic<Int64>(.min)
    private let page: Mutex<Page>

    private struct Page {
        var cells: [Int64]
        var partitions: [PartitionReading] = []
    }

    /// A copy of what was published last.
    struct Reading {
        var cells: [Int64]
        var partitions: [PartitionReading]
    }

    init(thread: String, layout: MetricLayout) {
        self.thread = thread
        self.layout = layout
        page = Mutex(Page(cells: [Int64](repeating: 0, count: layout.cellCount)))
    }

    /// - Returns: false if a reader has the page this moment.
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

    /// The thread turns. Publishing says so too; this is for a thread that is kept from it.
    public func beat(nowMilliseconds: Int64) {
        beatMilliseconds.store(nowMilliseconds, ordering: .relaxed)
    }

    /// The thread will not turn until then, and that is well: it closes a client, with a time limit.
    public func expectQuiet(untilMilliseconds: Int64) {
        quietUntilMilliseconds.store(untilMilliseconds, ordering: .relaxed)
    }

    /// Since the thread last showed that it turns, or since the quiet that it announced is over; nil before its first turn.
    func silenceMilliseconds(nowMilliseconds: Int64) -> Int64? {
        let beat = beatMilliseconds.load(ordering: .relaxed)
        guard beat >= 0 else { return nil }
        return max(0, nowMilliseconds - max(beat, quietUntilMilliseconds.load(ordering: .relaxed)))
    }

    /// Copies without sharing: the publishing thread must not pay for a reader's copy.
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
