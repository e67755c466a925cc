import Audiences
import CausewayConfiguration
import Delivery
import Kafka
import Numbers
import Observability

/// Divides the worker's memory into parts, once at the start. The fixed parts are estimates. Each other part is a limit
/// that its owner enforces. (R4)
///
/// A backlog of any size fits. A lane that has used up its bytes takes no more records. Its inbox then fills, and the
/// Kafka thread pauses its partitions.
///
/// A lane's tables of audiences, such as that of parked members, have limits that follow from their part of the memory
/// (`AudiencesConfiguration.limitTableBytes`).
///
/// The memory of partitions is in no part, because it is nearly always small: 2 to 10 KiB for each partition of a lane.
/// Only a partition with a record that stays unsettled while later ones settle needs more, at most 256 KiB.
/// (`PartitionLedger`)
struct MemoryBudget: Equatable {
    /// The least memory that is assumed for a process without a limit: enough for four lanes with about 43,000 commands
    /// each.
    static let defaultTotalBytes: Int64 = 1 << 30
    /// The part of a control group's limit that the budget uses, per cent. The rest is for memory that the group counts
    /// and the budget does not: socket buffers, the kernel's tables, and unused memory between an allocator's blocks.
    static let usableControlGroupPercent: Int64 = 85

    /// The memory of the program with its libraries and runtime, the HTTP endpoint and the logs.
    static let fixedBytesOfProcess: Int64 = 48 << 20
    /// The fixed memory of each lane: its stack, its share of the allocators' own memory, its rings, its Redis
    /// connection with the calls in flight, and its counts of reports to the timetable.
    static let fixedBytesPerLane: Int64 = (6 << 20) + Int64(Delivery.lifetimeReportCountBytes)
    /// The memory of an APNs connection without its pushes in flight: TLS, HPACK, and the output buffer, which keeps at
    /// most 128 KiB while it is empty (`OutputBuffer`).
    static let fixedBytesPerConnection: Int64 = 192 << 10
    /// The memory that a connection allocates for each push that it may have in flight: the push's slot with room for
    /// the response's body, and two entries of the table of streams.
    static let bytesPerInFlightPush: Int64 = 384
    static let defaultInFlightPerConnection = WorkerConfiguration().apns.inFlightPerConnection
    /// Bytes that librdkafka needs for a record beside its key and value.
    static let recordOverheadBytes: Int64 = 512
    /// The most compressed bytes in one response of a broker. librdkafka decompresses a whole response at once, so a
    /// response needs memory of many times its size: records like a football match's updates are 13 times as large as
    /// their batches (lz4), or 25 times (zstd).
    ///
    /// librdkafka allows no value below `message.max.bytes`, 1,000,000 by default. A broker returns the first batch of
    /// a response even if the batch is larger than this limit.
    static let fetchResponseBytesMax: Int64 = 1 << 20
    /// The most compressed bytes of one partition in a response. So a response has room for records of several
    /// partitions.
    static let fetchPartitionBytesMax: Int64 = 256 << 10
    /// The most memory that is reserved for fetches under way: decompressed responses of three brokers, each ten times
    /// as large as its compressed bytes.
    private static let fetchBytesMax: Int64 = 3 * 10 * fetchResponseBytesMax

    let totalBytes: Int64
    let laneCount: Int64
    /// The memory of the connections that the pools want, without retired ones: these are few, and last only until
    /// their last responses.
    let connectionsBytes: Int64
    /// The memory of fetched records that the Kafka thread has not given to a lane yet.
    let consumerQueueBytes: Int64
    /// The memory of the brokers' responses to fetches under way, decompressed.
    let fetchBytes: Int64
    /// The memory of outgoing records, such as results, that Kafka has not acknowledged.
    let producerQueueBytes: Int64
    /// For each lane: the memory of records in its inbox, which the lane has not taken yet.
    let inboxBytesPerLane: Int64
    /// For each lane: the memory of its fan-out records and pages of members.
    let audienceBytesPerLane: Int64
    /// For each lane: memory for the fixed-size parts of its fan-out records (`fanoutRecordsMax`), in addition to
    /// `audienceBytesPerLane`. These parts are large, because each record may have a round and a channel.
    let additionalFanoutRecordBytesPerLane: Int64
    /// For each lane: memory for its pages of members, in addition to `audienceBytesPerLane`. Many apps need it,
    /// because each app may use at least `AudiencesConfiguration.pageBytesPerAppMin`.
    let additionalPageBytesPerLane: Int64
    /// For each lane: the memory of its commands to audiences, parked members, refused members and changes of members.
    let audienceTableBytesPerLane: Int64
    /// For each lane: the memory of its records, bodies and activities.
    let deliveryBytesPerLane: Int64

    /// The smallest values of `audienceTableBytesPerLane` and `deliveryBytesPerLane` with which a lane can work.
    private static let audienceTableBytesPerLaneMin: Int64 = 2 << 20
    private static let deliveryBytesPerLaneMin: Int64 = 2 << 20
    /// The tables of audiences get a quarter of the memory that is left for a lane, but at least
    /// `audienceTableBytesPerLaneMin`, and no more than full tables need.
    private static let audienceTablesDivisor: Int64 = 4

    /// - Parameters:
    ///   - appCount: the number of configured apps.
    ///   - inFlightPerConnection: how many pushes each connection may have in flight.
    init(
        totalBytes: Int64,
        laneCount: Int,
        connectionsMax: Int,
        appCount: Int = 1,
        inFlightPerConnection: Int = MemoryBudget.defaultInFlightPerConnection
    ) throws(MemoryBudgetError) {
        self.totalBytes = totalBytes
        self.laneCount = Int64(laneCount)
        connectionsBytes =
            Int64(connectionsMax)
            * (Self.fixedBytesPerConnection + Int64(inFlightPerConnection) * Self.bytesPerInFlightPush)
        consumerQueueBytes = min(max(totalBytes / 12, 4 << 20), 64 << 20)
        fetchBytes = min(max(totalBytes / 32, 2 << 20), Self.fetchBytesMax)
        producerQueueBytes = min(max(totalBytes / 10, 4 << 20), 192 << 20)
        inboxBytesPerLane = min(max(totalBytes / 24 / Int64(laneCount), 256 << 10), 16 << 20)
        let sharedBytes =
            Self.fixedBytesOfProcess + connectionsBytes + consumerQueueBytes + fetchBytes + producerQueueBytes
        audienceBytesPerLane = min(max(totalBytes / 32 / Int64(laneCount), 512 << 10), 8 << 20)
        additionalFanoutRecordBytesPerLane = audienceBytesPerLane / 4 * 3
        additionalPageBytesPerLane = max(
            0,
            Int64(appCount * AudiencesConfiguration.pageBytesPerAppMin) - audienceBytesPerLane / 2
        )
        let fixedBytes =
            sharedBytes + Int64(laneCount)
            * (Self.fixedBytesPerLane + inboxBytesPerLane + audienceBytesPerLane + additionalFanoutRecordBytesPerLane
                + additionalPageBytesPerLane)
        let remainingBytesPerLane = (totalBytes - fixedBytes) / Int64(laneCount)
        audienceTableBytesPerLane = min(
            Int64(AudiencesConfiguration.defaultTableBytes),
            max(remainingBytesPerLane / Self.audienceTablesDivisor, Self.audienceTableBytesPerLaneMin)
        )
        deliveryBytesPerLane = remainingBytesPerLane - audienceTableBytesPerLane
        guard deliveryBytesPerLane >= Self.deliveryBytesPerLaneMin else {
            throw MemoryBudgetError(totalBytes: totalBytes, laneCount: laneCount, connectionsMax: connectionsMax)
        }
    }

    /// Takes the memory from the configuration, or else from the control group's limit. If both are missing, takes the
    /// larger of two sizes: the default, and the planned memory for this number of lanes and connections.
    init(
        _ configuration: WorkerConfiguration,
        laneCount: Int,
        limit: MemoryLimit = MemoryLimit()
    ) throws(MemoryBudgetError) {
        let connectionsMax = laneCount * configuration.pools.count * configuration.apns.connectionsPerPool
        let inFlightPerConnection = configuration.apns.inFlightPerConnection
        let configuredBytes = Int64(configuration.worker.memoryMebibytes) << 20
        let controlGroupBytes = limit.bytes.map { $0 / 100 * Self.usableControlGroupPercent }
        try self.init(
            totalBytes: configuredBytes > 0
                ? configuredBytes
                : controlGroupBytes
                    ?? max(
                        Self.defaultTotalBytes,
                        Self.computePlannedMebibytes(
                            laneCount: laneCount,
                            connectionsMax: connectionsMax,
                            appCount: configuration.apps.count,
                            inFlightPerConnection: inFlightPerConnection
                        ) << 20
                    ),
            laneCount: laneCount,
            connectionsMax: connectionsMax,
            appCount: configuration.apps.count,
            inFlightPerConnection: inFlightPerConnection
        )
    }

    // MARK: - Limits of a lane

    /// Returns how many records a lane may have: as many as fit into half of `deliveryBytesPerLane`, at least 64, but
    /// at most `configured`. This half is for the fixed-size part of each record, and for the ring of delivery reports.
    func recordsMax(configured: Int) -> Int {
        let bytes = Int(deliveryBytesPerLane / 2) - LaneMailbox.audienceDeliveryReportBytes
        return min(configured, max(64, bytes / (Delivery.bytesPerRecord + LaneMailbox.deliveryReportBytesPerRecord)))
    }

    /// The bytes of blocks in use, with texts, tokens, bodies and long ids: 35 % of `deliveryBytesPerLane`. Half of
    /// those bytes are for ``recordsMax(configured:)``. The other 15 % are for free blocks: those of a size that is no
    /// longer needed, and the rest of each size's last chunk.
    var usedBlockBytesMax: Int { Int(deliveryBytesPerLane / 2 / 10 * 7) }

    /// The bytes of all chunks of blocks, in use or free: half of `deliveryBytesPerLane`.
    var allocatedBlockBytesMax: Int { Int(deliveryBytesPerLane / 2) }

    /// The bytes of one chunk, which has blocks of one size. There are twelve sizes for records, and three for ids. One
    /// chunk of each needs at most an eighth of `deliveryBytesPerLane`, if this is 16 MiB or more.
    var blockChunkBytes: Int {
        var byteCount = DeliveryConfiguration.blockChunkBytesMin
        while byteCount < DeliveryConfiguration.blockChunkBytesMax, Int64(byteCount) * 2 * 128 <= deliveryBytesPerLane {
            byteCount *= 2
        }
        return byteCount
    }

    // MARK: - Limits of a lane's core for audiences

    /// The size of a page of members from which `pagesMax` is computed. Most pages are larger, so a lane usually
    /// reaches `pageBytesMax` first. The size is small, so that `pagesMax` is high enough for many small audiences:
    /// with at most 64 pages, these got their states late.
    private static let assumedBytesPerPage: Int64 = 4 << 10

    func pagesMax(configured: Int, appCount: Int) -> Int {
        max(2 * appCount, min(configured, Int(audienceBytesPerLane / 2 / Self.assumedBytesPerPage)))
    }

    /// Returns how many bytes a lane's pages of members may have: `configured`, but at most half of
    /// `audienceBytesPerLane`.
    func pageBytesMax(configured: Int) -> Int { min(configured, Int(audienceBytesPerLane / 2)) }

    /// Returns how many fan-out records a lane may have: as many as fit, at most `configured`, but never fewer than 64.
    /// Their fixed-size parts get a quarter of the lane's audience memory, and `additionalFanoutRecordBytesPerLane`.
    /// Half of the audience memory is for pages, and the last quarter for the bodies and texts of the fan-out records.
    func fanoutRecordsMax(configured: Int) -> Int {
        let bytes = Int(audienceBytesPerLane / 4 + additionalFanoutRecordBytesPerLane)
        return max(64, min(configured, bytes / Audiences.bytesPerFanoutRecord))
    }

    var fanoutRecordBytesMax: Int { Int(audienceBytesPerLane / 4) }

    // MARK: - Limits of librdkafka

    /// The properties that limit librdkafka's queues. librdkafka's byte limits count only keys and values, so a queue
    /// of small records also needs a limit of its number of records. Each of the two limits gets half of the queue's
    /// memory.
    ///
    /// - Parameter configuredProperties: the configured properties, which override the returned ones. A high
    ///   `message.max.bytes` here raises `fetch.max.bytes`, which librdkafka refuses below it.
    func makeConsumerProperties(for configuredProperties: [KafkaProperties.Property]) -> [KafkaProperties.Property] {
        let messageBytesMax = configuredProperties.last { $0.name == "message.max.bytes" }.flatMap { Int64($0.value) }
        return [
            (
                "queued.max.messages.kbytes",
                String(min(Int64(KafkaProperties.consumerQueueKilobytesMax), consumerQueueBytes / 2 / 1_024))
            ),
            ("queued.min.messages", String(min(100_000, consumerQueueBytes / 2 / Self.recordOverheadBytes))),
            ("fetch.max.bytes", String(max(Self.fetchResponseBytesMax, messageBytesMax ?? 0))),
            ("fetch.message.max.bytes", String(Self.fetchPartitionBytesMax)),
        ]
    }

    var producerProperties: [KafkaProperties.Property] {
        [
            (
                "queue.buffering.max.kbytes",
                String(min(Int64(KafkaProperties.producerQueueKilobytesMax), producerQueueBytes / 2 / 1_024))
            ),
            (
                "queue.buffering.max.messages",
                String(
                    min(
                        Int64(KafkaProperties.producerQueueMessagesMax),
                        producerQueueBytes / 2 / Self.recordOverheadBytes
                    )
                )
            ),
        ]
    }
}

extension MemoryBudget {
    /// The number of records of each lane for which ``computePlannedMebibytes`` plans memory. A lane can then read
    /// ahead in a backlog of this many activities, and send only the newest state of each. With less room, it also
    /// sends older states.
    static let plannedRecordsPerLane = 65_536
    /// The block bytes of a usual command: its texts, a token and a body, in blocks whose sizes are powers of two.
    private static let blockBytesPerRecord = 1_024
    private static let plannedStepMebibytes: Int64 = 64

    /// Returns the smallest limit of a control group, in steps of 64 MiB, that gives each lane room for the planned
    /// records.
    static func computePlannedMebibytes(
        laneCount: Int,
        connectionsMax: Int,
        appCount: Int = 1,
        inFlightPerConnection: Int = MemoryBudget.defaultInFlightPerConnection
    ) -> Int64 {
        var mebibytes = plannedStepMebibytes
        while true {
            let totalBytes = (mebibytes << 20) / 100 * usableControlGroupPercent
            if let budget = try? MemoryBudget(
                totalBytes: totalBytes,
                laneCount: laneCount,
                connectionsMax: connectionsMax,
                appCount: appCount,
                inFlightPerConnection: inFlightPerConnection
            ),
                budget.recordsMax(configured: .max) >= plannedRecordsPerLane,
                budget.usedBlockBytesMax >= plannedRecordsPerLane * blockBytesPerRecord
            {
                return mebibytes
            }
            mebibytes += plannedStepMebibytes
        }
    }
}

extension MemoryBudget: CustomStringConvertible {
    /// A summary for the log: all memory, and for each lane the memory for its records and the memory for its
    /// audiences.
    var description: String {
        let audienceBytes =
            audienceBytesPerLane + additionalFanoutRecordBytesPerLane + additionalPageBytesPerLane
            + audienceTableBytesPerLane
        return """
            \(totalBytes >> 20) MiB, \(deliveryBytesPerLane >> 20) for each lane, and \(audienceBytes >> 20) for its \
            audiences
            """
    }
}

/// The error of a worker with too little memory for its numbers of lanes and connections.
struct MemoryBudgetError: Error, CustomStringConvertible {
    let totalBytes: Int64
    let laneCount: Int
    let connectionsMax: Int

    var description: String { "worker.memoryMebibytes: \(reason)" }

    /// The description without the configuration key.
    var reason: String {
        """
        \(totalBytes >> 20) MiB (if not set: 85 % of the control group's limit) is too little \
        for \(Numeral.counted(laneCount, "lane", "lanes")) and \
        \(Numeral.counted(connectionsMax, "connection", "connections")). Set fewer lanes (worker.lanes), or give more \
        memory
        """
    }
}
