import Delivery
import Kafka
import Logging
import Observability
import Reactor

/// What a partition's records have written to Redis is lost in part: they are read once more, from where it is missing.
///
/// The partition is given to its lane again, as after a rebalance: first the lane settles what is under way, so that nothing is sent twice.
/// What was committed stays so. If the partition gets another owner before the rereading is over, that one finds its marks incomplete, and
/// reads it again.
struct PartitionRereading {
    /// How long a lane may settle what is under way in a partition. Its own connection to Redis may be back seconds after the one that saw
    /// the loss.
    static let drainMilliseconds: Int64 = 10_000
    /// Between two attempts to find where to begin, or to begin there.
    static let retryMilliseconds: Int64 = 1_000
    /// Between two questions for what is committed, and how long the Kafka thread waits for the answer.
    static let questionMilliseconds: Int64 = 5_000
    static let questionTimeoutMilliseconds: Int32 = 500
    /// How often the partitions' standing is published.
    static let publicationMilliseconds: Int64 = 200

    /// A partition that is drained before it is read from `start`.
    fileprivate struct Draining {
        var request: RereadingRequest
        var start: SeekPosition
        var endMilliseconds: Int64
    }

    let board: RereadingBoard
    /// How far back commands are read when Redis has forgotten them.
    let commandsMilliseconds: Int64
    /// What was reported last of each partition, to be known when it is read once more.
    var progress: [TopicPartition: PartitionProgress] = [:]
    /// Of partitions whose coordinator did not answer at their assignment: what was committed a little later.
    fileprivate var lateBeginnings: [TopicPartition: Int64] = [:]
    /// How many partitions the registrations topic has; nil: not known yet.
    fileprivate var registrationPartitions: Int?
    fileprivate var asksForPartitions = true
    fileprivate var waiting: [RereadingRequest] = []
    fileprivate var draining: [Draining] = []
    fileprivate var retryDueMilliseconds: Int64 = 0
    fileprivate var seekDueMilliseconds: Int64 = 0
    fileprivate var questionDueMilliseconds: Int64 = 0
    fileprivate var publicationDueMilliseconds: Int64 = 0

    init(board: RereadingBoard, commandsMilliseconds: Int64) {
        self.board = board
        self.commandsMilliseconds = commandsMilliseconds
    }

    /// What has been assigned is to have its marks before much of it is settled.
    mutating func publishSoon() { publicationDueMilliseconds = 0 }

    /// The group has shared: the registrations topic may have more partitions than before.
    mutating func askForPartitions() { (asksForPartitions, questionDueMilliseconds) = (true, 0) }

    /// The partition is given up.
    mutating func forget(_ partition: TopicPartition) {
        progress[partition] = nil
        lateBeginnings[partition] = nil
    }
}

extension RereadingRequest {
    fileprivate var place: TopicPartition {
        TopicPartition(topic: TopicIdentifier(index: topic), partition: partition)
    }
}

extension Intake {
    func rereadPartitions() {
        let requests = rereading.board.takeRequests()
        count(requests)
        rereading.waiting += requests
        if !rereading.draining.isEmpty { readDrained() }
        if !rereading.waiting.isEmpty, isBrokerUp == true, loop.nowMilliseconds >= rereading.retryDueMilliseconds {
            beginDraining()
        }
        guard loop.nowMilliseconds >= rereading.publicationDueMilliseconds else { return }
        rereading.publicationDueMilliseconds = loop.nowMilliseconds + PartitionRereading.publicationMilliseconds
        if loop.nowMilliseconds >= rereading.questionDueMilliseconds, isBrokerUp == true { askBrokers() }
        publishStandings()
    }

    private func count(_ requests: [RereadingRequest]) {
        for loss in RedisLoss.allCases {
            let isSeen = requests.contains { $0.isEmptied == (loss == .emptied) }
            if isSeen { metrics.add(.redisLosses, Int(loss.rawValue)) }
        }
    }

    /// How many partitions are to be read once more, or are being read.
    var rereadingCount: Int {
        let asked = Set(rereading.waiting.map(\.place) + rereading.draining.map(\.request.place))
        return assignments.all.count { asked.contains($0) || assignments[$0]?.rereading?.isComplete == false }
    }

    // MARK: - What is known of the partitions

    /// What is settled of the workers' own topics is not read once more: its commands stand in the commands topic as well.
    private var markedPartitions: [TopicPartition] {
        assignments.all.filter { $0.topic.index == Self.commandsTopic || $0.topic.index == Self.registrationsTopic }
    }

    /// One whose beginning is not known is left out: whether its marks are missing, or were never made, cannot be told.
    private func publishStandings() {
        rereading.board.publish(
            markedPartitions.compactMap { partition in
                guard let entry = assignments[partition], let beginning = beginning(of: partition) else { return nil }
                return PartitionStanding(
                    topic: partition.topic.index,
                    partition: partition.partition,
                    assignment: entry.number,
                    beganAt: beginning,
                    settledBelow: settled(of: partition, entry),
                    rereading: entry.rereading.map { ($0.reader, $0.isComplete) }
                )
            },
            registrationPartitions: rereading.registrationPartitions
        )
    }

    /// Where reading began; nil: not known yet.
    private func beginning(of partition: TopicPartition) -> Int64? {
        switch consumer.startPositions[partition] {
        case .offset(let offset)?: offset
        case .beginning?: 0
        case .end?, nil: rereading.lateBeginnings[partition]
        }
    }

    /// The records below are settled.
    private func settled(of partition: TopicPartition, _ entry: AssignmentTable.Entry) -> Int64 {
        entry.settledBelow(beganAt: beginning(of: partition) ?? 0)
    }

    /// Asks for what is not known yet. The Kafka thread waits for the answers.
    private func askBrokers() {
        let unknown = markedPartitions.filter { beginning(of: $0) == nil }
        guard !unknown.isEmpty || rereading.asksForPartitions else { return }
        let timeout = PartitionRereading.questionTimeoutMilliseconds
        expectQuiet(milliseconds: 4 * Int64(timeout))
        if !unknown.isEmpty, let offsets = try? consumer.committed(unknown, timeoutMilliseconds: timeout) {
            for (partition, offset) in zip(unknown, offsets) { rereading.lateBeginnings[partition] = offset ?? 0 }
        }
        let registrations = TopicIdentifier(index: Self.registrationsTopic)
        if rereading.asksForPartitions,
            let count = try? consumer.partitionCount(of: registrations, timeoutMilliseconds: timeout)
        {
            (rereading.registrationPartitions, rereading.asksForPartitions) = (count, false)
        }
        loop.refreshClock()
        rereading.questionDueMilliseconds = loop.nowMilliseconds + PartitionRereading.questionMilliseconds
    }

    // MARK: - Reading once more

    private func beginDraining() {
        rereading.retryDueMilliseconds = loop.nowMilliseconds + PartitionRereading.retryMilliseconds
        let requests = rereading.waiting.filter { assignments[$0.place]?.number == $0.assignment }
        rereading.waiting = []
        guard !requests.isEmpty else { return }
        expectQuiet(milliseconds: 2 * Int64(Consumer.requestLimitMilliseconds))
        do throws(KafkaError) {
            let starts = try starts(of: requests)
            loop.refreshClock()
            for (request, start) in zip(requests, starts) {
                guard let entry = assignments[request.place] else { continue }
                // Above what may be committed, too, records were settled.
                let dealtBelow = max(settled(of: request.place, entry), entry.nextOffset)
                guard let start, dealtBelow > max(0, start.rawOffset) else {
                    assignments.noteRereading(of: request.place, reader: request.reader, end: 0)
                    continue
                }
                order(.revoke, request.place, number: entry.number, lane: entry.lane)
                let end = loop.nowMilliseconds + PartitionRereading.drainMilliseconds
                rereading.draining.append(.init(request: request, start: start, endMilliseconds: end))
            }
            if !rereading.draining.isEmpty { note(.rereadingBegan, ["partitions": "\(rereading.draining.count)"]) }
        } catch {
            rereading.waiting = requests
            report(error)
            loop.refreshClock()
        }
        publishStandings()
    }

    /// All that is drained, or has had its time, is read from where it is to begin. None before the others: a lane that waits for one of them
    /// would take the next partition's records for all that there are, and send what is old in them.
    private func readDrained() {
        let draining = rereading.draining.filter { assignments[$0.request.place]?.number == $0.request.assignment }
        rereading.draining = draining
        let isReady = draining.allSatisfy {
            assignments[$0.request.place]?.isDrained == true || loop.nowMilliseconds >= $0.endMilliseconds
        }
        guard isReady, loop.nowMilliseconds >= rereading.seekDueMilliseconds else { return }
        let undrained = draining.count { assignments[$0.request.place]?.isDrained != true }
        if undrained > 0 { note(.drainTimeOver, ["partitions": "\(undrained)", "cause": "Redis has lost writes"]) }
        expectQuiet(milliseconds: 2 * Int64(Consumer.requestLimitMilliseconds))
        for (position, partition) in draining.enumerated() {
            guard let entry = assignments[partition.request.place] else { continue }
            // The seek changes where reading began.
            let settledBelow = settled(of: partition.request.place, entry)
            if let error = consumer.seek(partition.request.place, to: partition.start.notBeyond(settledBelow)) {
                report(error)
                // A broker that does not answer for one would not for the next.
                loop.refreshClock()
                rereading.seekDueMilliseconds = loop.nowMilliseconds + PartitionRereading.retryMilliseconds
                rereading.draining = Array(draining[position...])
                return
            }
            assignAgain(partition.request, entry, settledBelow: settledBelow)
        }
        rereading.draining = []
    }

    private func assignAgain(_ request: RereadingRequest, _ entry: AssignmentTable.Entry, settledBelow: Int64) {
        order(.release, request.place, number: entry.number, lane: entry.lane)
        assignments.remove(request.place)
        let number = assignments.insert(request.place, lane: entry.lane)
        assignments.noteRereading(of: request.place, reader: request.reader, end: settledBelow)
        let settled = CommittedOffset(offset: settledBelow, metadata: settledAbove(settledBelow, of: request.place))
        order(.assign, request.place, number: number, lane: entry.lane, isReadAgain: true, committed: settled)
    }

    /// Which records above were settled, as the lane, or the owner before, has told it beside this offset.
    private func settledAbove(_ end: Int64, of partition: TopicPartition) -> [UInt8] {
        if let progress = rereading.progress[partition] {
            return progress.committableOffset == end ? progress.metadata : []
        }
        let committed = consumer.committedOffsets[partition]
        return committed?.offset == end ? committed?.metadata ?? [] : []
    }

    /// Where each begins; nil: nothing of it is recent enough. Registrations that Redis has forgotten are read from the first on: their topic
    /// is compacted, and those of activities that must be over are not written. A mark may be older than the log's first record.
    private func starts(of requests: [RereadingRequest]) throws(KafkaError) -> [SeekPosition?] {
        let commands = requests.filter { $0.topic == Self.commandsTopic }.map(\.place)
        let registrations = requests.filter { $0.topic != Self.commandsTopic && $0.from != nil }.map(\.place)
        var oldest: [TopicPartition: Int64] = [:]
        if !commands.isEmpty {
            let since = loop.wallMilliseconds - rereading.commandsMilliseconds
            oldest = try consumer.offsets(of: commands, sinceMilliseconds: since)
        }
        if !registrations.isEmpty {
            oldest.merge(try consumer.offsets(of: registrations, sinceMilliseconds: 0)) { $1 }
        }
        return requests.map { request in
            if request.topic != Self.commandsTopic, request.from == nil { return .beginning }
            return oldest[request.place].map { .offset(max($0, request.from ?? 0)) }
        }
    }
}

extension SeekPosition {
    /// What is not settled must not be passed over.
    func notBeyond(_ settledBelow: Int64) -> SeekPosition {
        if case .offset(let offset) = self { .offset(min(offset, settledBelow)) } else { self }
    }
}
