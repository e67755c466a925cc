import CausewayConfiguration
import Delivery
import Kafka
import Observability

/// What a worker's memory is divided into, computed at start: each part is a limit that its owner keeps.
///
/// A backlog of any size fits: a lane that holds its bytes takes no more, its inbox fills, and the Kafka thread pauses its partitions.
struct MemoryBudget: Equatable {
    /// Without a control group's limit: a worker of four lanes with room for some 80,000 commands each.
    static let bytesDefault: Int64 = 1 << 30
    /// Of a control group's limit that is planned with; the rest is for what is counted to the group and not to the process' own
    /// allocations: sockets' buffers, the kernel's tables, what allocators keep between their blocks.
    static let groupPercent: Int64 = 85

    /// The program, its libraries and the runtime, what the endpoint and the logs need.
    static let programBytes: Int64 = 48 << 20
    /// A thread's stack in use, its share of the allocators, the rings to and from it, the connection to Redis with its calls.
    static let laneFixedBytes: Int64 = 6 << 20
    /// An APNs connection: TLS, HPACK, the requests of one window.
    static let connectionBytes: Int64 = 384 << 10
    /// What librdkafka needs for a record beside its key and value.
    static let recordOverheadBytes: Int64 = 512

    let totalBytes: Int64
    let laneCount: Int64
    let connectionsBytes: Int64
    /// Fetched and not dealt.
    let consumerQueueBytes: Int64
    /// Fetches under way.
    let fetchBytes: Int64
    /// Results that are not acknowledged.
    let producerQueueBytes: Int64
    /// Dealt to a lane and not taken, for each lane.
    let inboxBytes: Int64
    /// Fan-out records and pages of members that a lane holds, for each lane.
    let audienceBytes: Int64
    /// Records, bodies and activities that a lane holds, for each lane.
    let laneBytes: Int64

    /// The least that a lane is of use with.
    private static let laneBytesMin: Int64 = 4 << 20

    init(totalBytes: Int64, laneCount: Int, connectionsMax: Int) throws(MemoryBudgetError) {
        self.totalBytes = totalBytes
        self.laneCount = Int64(laneCount)
        connectionsBytes = Int64(connectionsMax) * Self.connectionBytes
        consumerQueueBytes = min(max(totalBytes / 12, 4 << 20), 64 << 20)
        fetchBytes = min(max(totalBytes / 32, 2 << 20), 16 << 20)
        producerQueueBytes = min(max(totalBytes / 10, 4 << 20), 192 << 20)
        inboxBytes = min(max(totalBytes / 24 / Int64(laneCount), 256 << 10), 16 << 20)
        let shared = Self.programBytes + connectionsBytes + consumerQueueBytes + fetchBytes + producerQueueBytes
        audienceBytes = min(max(totalBytes / 32 / Int64(laneCount), 512 << 10), 8 << 20)
        let fixed = shared + Int64(laneCount) * (Self.laneFixedBytes + inboxBytes + audienceBytes)
        laneBytes = (totalBytes - fixed) / Int64(laneCount)
        guard laneBytes >= Self.laneBytesMin else {
            throw MemoryBudgetError(totalBytes: totalBytes, laneCount: laneCount, connectionsMax: connectionsMax)
        }
    }

    /// From the configuration, or from the control group's limit. Where there is neither, the default, or what so many lanes and
    /// connections are planned with.
    init(
        _ configuration: WorkerConfiguration,
        laneCount: Int,
        share: MemoryShare = MemoryShare()
    ) throws(MemoryBudgetError) {
        let connectionsMax =
            laneCount * configuration.apps.reduce(0) { $0 + $1.environments.count }
            * configuration.apns.connectionsPerPool
        let given = Int64(configuration.worker.memoryMebibytes) << 20
        let ofGroup = share.limitBytes.map { $0 / 100 * Self.groupPercent }
        try self.init(
            totalBytes: given > 0
                ? given
                : ofGroup
                    ?? max(
                        Self.bytesDefault,
                        Self.plannedMebibytes(lanes: laneCount, connectionsMax: connectionsMax) << 20
                    ),
            laneCount: laneCount,
            connectionsMax: connectionsMax
        )
    }

    // MARK: - What a lane makes of its bytes

    /// Half of a lane's bytes is for what each record needs, whatever is in it.
    func recordsMax(configured: Int) -> Int {
        let bytes = Int(laneBytes / 2) - LaneMailbox.audienceReportBytes
        return min(configured, max(64, bytes / (Delivery.bytesPerRecord + LaneMailbox.reportBytesPerRecord)))
    }

    /// The other half is for texts, tokens and bodies. A fifth of it is for blocks of sizes that were needed before and are free.
    var blockBytesMax: Int { Int(laneBytes / 2 / 5 * 4) }

    // MARK: - What a lane's core of audiences makes of its bytes

    /// A page of members as Redis has it, and what is known of each of its members.
    private static let bytesPerPage: Int64 = 48 << 10
    private static let bytesPerFanoutRecord: Int64 = 512

    /// Half of the bytes is for pages: two for each app at least, so that one is read while the other is sent to.
    func pagesMax(configured: Int, applications: Int) -> Int {
        max(2 * applications, min(configured, Int(audienceBytes / 2 / Self.bytesPerPage)))
    }

    /// A quarter is for fan-out records, whatever is in them; a quarter for their bodies and texts.
    func fanoutRecordsMax(configured: Int) -> Int {
        max(64, min(configured, Int(audienceBytes / 4 / Self.bytesPerFanoutRecord)))
    }

    var fanoutBytesMax: Int { Int(audienceBytes / 4) }

    // MARK: - What librdkafka makes of its bytes

    /// It counts keys and values alone, so a queue of small records is limited by their number.
    var consumerProperties: [KafkaProperties.Property] {
        [
            (
                "queued.max.messages.kbytes",
                String(min(Int64(KafkaProperties.consumerQueueKilobytes), consumerQueueBytes / 2 / 1_024))
            ),
            ("queued.min.messages", String(min(100_000, consumerQueueBytes / 2 / Self.recordOverheadBytes))),
            ("fetch.max.bytes", String(max(1 << 20, fetchBytes / 2))),
        ]
    }

    var producerProperties: [KafkaProperties.Property] {
        [
            (
                "queue.buffering.max.kbytes",
                String(min(Int64(KafkaProperties.producerQueueKilobytes), producerQueueBytes / 2 / 1_024))
            ),
            (
                "queue.buffering.max.messages",
                String(
                    min(Int64(KafkaProperties.producerQueueMessages), producerQueueBytes / 2 / Self.recordOverheadBytes)
                )
            ),
        ]
    }
}

extension MemoryBudget {
    /// What a planned lane has room for: a backlog of so many activities is merged before it is sent.
    static let plannedRecordsPerLane = 65_536
    /// Of a command of the usual size: its texts, a token and a body, in blocks of powers of two.
    private static let blockBytesPerRecord = 1_024
    private static let plannedStepMebibytes: Int64 = 64

    /// The least limit of a control group with which each lane has that room.
    static func plannedMebibytes(lanes: Int, connectionsMax: Int) -> Int64 {
        var mebibytes = plannedStepMebibytes
        while true {
            let total = (mebibytes << 20) / 100 * groupPercent
            if let budget = try? MemoryBudget(totalBytes: total, laneCount: lanes, connectionsMax: connectionsMax),
                budget.recordsMax(configured: .max) >= plannedRecordsPerLane,
                budget.blockBytesMax >= plannedRecordsPerLane * blockBytesPerRecord
            {
                return mebibytes
            }
            mebibytes += plannedStepMebibytes
        }
    }
}

extension MemoryBudget: CustomStringConvertible {
    /// For the log: all, and what each lane may hold.
    var description: String { "\(totalBytes >> 20) MiB, \(laneBytes >> 20) for each lane" }
}

/// Too little memory for so many lanes.
struct MemoryBudgetError: Error, CustomStringConvertible {
    let totalBytes: Int64
    let laneCount: Int
    let connectionsMax: Int

    var description: String {
        "worker.memoryMebibytes: \(totalBytes >> 20) MiB (of the control group's limit, where the key is not set) is too little for "
            + "\(laneCount) lanes with \(connectionsMax) connections: fewer lanes (worker.lanes), or more memory"
    }
}
