import CausewayConfiguration
import Kafka
import Logging
import Observability
import Reactor
import Redis

/// Notices that a Redis primary was emptied, or was replaced by a server that may lack the newest writes. Then requests
/// that this worker's partitions are read again. ``MarkAction`` decides, and the Kafka thread reads. (R24)
///
/// Every worker watches the marks of its own partitions. An incomplete mark says that a rereading of the partition is
/// not complete. If a worker ends before the rereading is complete, the partition's next owner finds the incomplete
/// mark, and begins the rereading again.
actor StoreWatch {
    static let pollInterval = Duration.seconds(1)
    /// The time between two checks of the worker's assignments. It is short, so that a new partition soon gets its
    /// marks.
    static let assignmentCheckInterval = Duration.milliseconds(100)
    /// In a cluster, a mark has copies in many hash slots. A hash slot that moves to another primary takes its copy
    /// along, so that the other primary does not count as emptied. To save writes, ``MarkAction/advance(_:)`` renews
    /// only one copy on each primary, and all copies in one of this many polls. Every other action writes all copies.
    private static let pollsPerFullRenewal = 30

    private let executor = BlockingExecutor(label: "store watch")
    private let primaryMarks: PrimaryMarks
    private let topics: [String]
    private let registrationsTopic: String
    private let mailbox: StoreWatchMailbox
    private let expectsCluster: Bool
    private let log: SharedLimitedLog
    /// Wakes the Kafka thread, so that the thread takes new requests from `mailbox` at once.
    private let kafkaWakeup: Wakeup
    private let reportFault: @Sendable (ConfigurationFault) -> Void
    /// Gets the result of each poll to which Redis replied. Is not called while the number of partitions of the
    /// registrations topic is unknown. The result is one of these:
    ///
    /// - Nil: audiences must wait for their members (``MemberCompleteness``).
    /// - A time: audiences may continue. This is the time at which the poll began, monotonic milliseconds.
    private let reportMemberCompleteness: @Sendable (Int64?) -> Void
    private var memberCompleteness = MemberCompleteness()
    /// The assignments whose marks were checked at least once, except for those whose first mark could not be written.
    private var assignmentNumbersWithCheckedMarks: Set<UInt32> = []
    /// For each assignment: the identifier of a rereading that was requested and perhaps has not begun yet.
    private var requestedRereadingIdentifiers: [UInt32: UInt64] = [:]
    private var hasReachedRedis = false
    private var pollCount = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// - Parameters:
    ///   - topics: the names of the topics that have marks: the commands topic, then the registrations topic.
    ///   - reportFault: called if the server belongs to a cluster, and `redis.mode` is not `cluster`.
    init(
        redis: RedisConfiguration,
        consumerGroup: String,
        topics: [String],
        mailbox: StoreWatchMailbox,
        log: SharedLimitedLog,
        kafkaWakeup: Wakeup,
        reportFault: @escaping @Sendable (ConfigurationFault) -> Void,
        reportMemberCompleteness: @escaping @Sendable (Int64?) -> Void
    ) throws(RedisError) {
        primaryMarks = try PrimaryMarks(configuration: redis, consumerGroup: consumerGroup)
        self.topics = topics
        registrationsTopic = topics[Int(Intake.registrationsTopicIndex)]
        self.mailbox = mailbox
        self.log = log
        self.kafkaWakeup = kafkaWakeup
        self.reportFault = reportFault
        self.reportMemberCompleteness = reportMemberCompleteness
        if case .cluster = redis.topology { expectsCluster = true } else { expectsCluster = false }
    }

    /// Polls Redis once every `pollInterval`, and sooner for a new assignment if Redis has replied to the last poll,
    /// until the task is cancelled.
    func run() async {
        var (pollDue, hasRedisReplied) = (ContinuousClock.now, true)
        while !Task.isCancelled {
            let hasNewAssignment =
                hasRedisReplied
                && mailbox.partitionStatuses.contains {
                    !assignmentNumbersWithCheckedMarks.contains($0.assignmentNumber)
                }
            if hasNewAssignment || ContinuousClock.now >= pollDue {
                hasRedisReplied = poll()
                pollDue = ContinuousClock.now + Self.pollInterval
            }
            // Poll at fixed intervals, because Redis sends no event when it loses data. The Kafka thread sends no
            // signal for a new assignment either: this loop can look for new ones often, because that costs only a
            // memory access.
            try? await Task.sleep(for: Self.assignmentCheckInterval)
        }
    }

    /// Reads all marks once, writes the marks that must change, and requests rereadings of the partitions whose writes
    /// are missing. Blocks for several round trips.
    ///
    /// - Returns: whether any primary replied. If none did, this method has done nothing; the lanes report that Redis
    ///   is down.
    func poll() -> Bool {
        let beganAtMilliseconds = EventLoop.monotonicMilliseconds
        let statuses = mailbox.partitionStatuses
        let markNames = statuses.map { Self.makeMarkName(topics[Int($0.topic)], $0.partition) }
        // Read the number of partitions only once. The Kafka thread may publish it while this method waits for Redis.
        // This poll has then read no mark of the registrations topic, and must not judge whether members are missing.
        let registrationPartitionCount = mailbox.registrationPartitionCount
        let registrationMarkNames = (0..<(registrationPartitionCount ?? 0))
            .map { Self.makeMarkName(registrationsTopic, Int32($0)) }
        guard let primaries = try? primaryMarks.readMarks(markNames + registrationMarkNames), !primaries.isEmpty else {
            return false
        }
        if registrationPartitionCount != nil {
            updateMemberCompleteness(primaries, from: markNames.count, beganAtMilliseconds: beganAtMilliseconds)
        }
        if !hasReachedRedis { checkRedisMode(primaries) }
        pollCount += 1
        assignmentNumbersWithCheckedMarks.formIntersection(statuses.map(\.assignmentNumber))
        requestedRereadingIdentifiers = requestedRereadingIdentifiers.filter {
            assignmentNumbersWithCheckedMarks.contains($0.key)
        }
        var writes: [MarkWrite] = []
        var requests: [RereadingRequest] = []
        for (index, publishedStatus) in statuses.enumerated() {
            var status = publishedStatus
            if let rereadingIdentifier = requestedRereadingIdentifiers[status.assignmentNumber],
                status.rereading?.identifier != rereadingIdentifier
            {
                status.rereading = (rereadingIdentifier, isComplete: false)
            }
            let marksByPrimary = primaries.map {
                ($0.server.runIdentifier ?? "", $0.markTexts[index].flatMap { PartitionMark($0) })
            }
            let action = MarkAction.next(
                for: status,
                primaries: marksByPrimary,
                isFirstCheck: !assignmentNumbersWithCheckedMarks.contains(status.assignmentNumber)
            )
            collectMarkWrites(action, of: status, index, marksByPrimary, &writes, &requests)
        }
        let failedAssignmentNumbers = performWrites(writes, markNames, primaries)
        requestRereadings(requests.filter { !failedAssignmentNumbers.contains($0.assignmentNumber) }, writes, primaries)
        // If Redis did not take the mark of a new rereading, forget the rereading: the next poll decides again.
        for number in failedAssignmentNumbers { requestedRereadingIdentifiers[number] = nil }
        // If Redis did not take a first mark, the assignment counts as not checked. Otherwise the next poll would find
        // no mark, and would take the mark for lost.
        assignmentNumbersWithCheckedMarks.formUnion(
            statuses.map(\.assignmentNumber).filter { !failedAssignmentNumbers.contains($0) }
        )
        mailbox.publishMarks(of: assignmentNumbersWithCheckedMarks)
        return true
    }

    private static func makeMarkName(_ topic: String, _ partition: Int32) -> String { "\(topic)/\(partition)" }

    /// Tells the lanes whether Redis has all members of audiences.
    ///
    /// - Parameter firstIndex: the index of the first mark of the registrations topic in each primary's `markTexts`.
    private func updateMemberCompleteness(
        _ primaries: [PrimaryMarks.PrimaryReading],
        from firstIndex: Int,
        beganAtMilliseconds: Int64
    ) {
        let marksByPrimary = primaries.map { primary in
            (
                primary.server.runIdentifier ?? "",
                primary.markTexts[firstIndex...].map { $0.flatMap { PartitionMark($0) } }
            )
        }
        switch memberCompleteness.updateStatus(marksByPrimary, nowMilliseconds: beganAtMilliseconds) {
        case .complete: reportMemberCompleteness(beganAtMilliseconds)
        case .missing: reportMemberCompleteness(nil)
        case .waitIsOver(let isFirstReport):
            if isFirstReport { log(.membersMissing, [:]) }
            reportMemberCompleteness(beganAtMilliseconds)
        }
    }

    /// Stops the worker if the configuration says that Redis is not a cluster, but the server belongs to one. Such a
    /// server refuses Redis commands whose keys are in several hash slots.
    private func checkRedisMode(_ primaries: [PrimaryMarks.PrimaryReading]) {
        hasReachedRedis = true
        guard !expectsCluster, let server = primaries.first(where: \.server.isClusterEnabled) else { return }
        let message = "the server belongs to a cluster; set redis.mode to cluster"
        reportFault(ConfigurationFault(place: "Redis at \(server.location)", key: "redis.mode", message: message))
    }

    // MARK: - Marks to write

    /// One mark to write to one primary. A renewal never creates a mark (`SET` with `XX`): if Redis has lost the mark
    /// since the poll read it, a new mark would hide the loss.
    private struct MarkWrite {
        var primaryIndex: Int
        var partitionIndex: Int
        var assignmentNumber: UInt32
        var mark: PartitionMark
        var mode: PrimaryMarks.WriteMode
    }

    /// Adds to `writes` and `requests` what an action asks for. Makes and notes the identifier of a new rereading.
    private func collectMarkWrites(
        _ action: MarkAction,
        of status: PartitionRereadingStatus,
        _ partitionIndex: Int,
        _ marksByPrimary: [(runIdentifier: String, mark: PartitionMark?)],
        _ writes: inout [MarkWrite],
        _ requests: inout [RereadingRequest]
    ) {
        func addWrites(
            _ primaries: [Int],
            _ mode: PrimaryMarks.WriteMode,
            _ storedEndOffset: (Int) -> Int64?,
            _ rereadingIdentifier: UInt64? = nil
        ) {
            for primary in primaries {
                let runIdentifier = marksByPrimary[primary].runIdentifier
                let mark = PartitionMark(
                    runIdentifier: runIdentifier,
                    storedEndOffset: storedEndOffset(primary),
                    rereadingIdentifier: rereadingIdentifier
                )
                writes.append(
                    MarkWrite(
                        primaryIndex: primary,
                        partitionIndex: partitionIndex,
                        assignmentNumber: status.assignmentNumber,
                        mark: mark,
                        mode: mode
                    )
                )
            }
        }
        switch action {
        case .nothing: break
        case .advance(let primaries):
            let renewsAllCopies = pollCount.isMultiple(of: Self.pollsPerFullRenewal)
            addWrites(
                primaries,
                renewsAllCopies ? .replaceExistingCopies : .replaceFirstCopy,
                { _ in status.settledEndOffset }
            )
        case .writeFirstMarks(let primaries): addWrites(primaries, .writeAllCopies, { _ in status.settledEndOffset })
        case .complete(let primaries), .lower(let primaries):
            addWrites(primaries, .replaceExistingCopies, { _ in status.settledEndOffset })
        case .reread(let primaries, let firstMissingOffset, let isPrimaryEmptied):
            let rereadingIdentifier = UInt64.random(in: 1 ... .max)
            requestedRereadingIdentifiers[status.assignmentNumber] = rereadingIdentifier
            addWrites(
                primaries,
                .writeAllCopies,
                { marksByPrimary[$0].mark?.storedEndOffset },
                rereadingIdentifier
            )
            requests.append(
                RereadingRequest(
                    topic: status.topic,
                    partition: status.partition,
                    assignmentNumber: status.assignmentNumber,
                    firstMissingOffset: firstMissingOffset,
                    rereadingIdentifier: rereadingIdentifier,
                    isPrimaryEmptied: isPrimaryEmptied
                )
            )
        }
    }

    /// Writes the marks, primary by primary.
    ///
    /// - Returns: the assignments for which at least one primary did not take a first mark, or the mark of a new
    ///   rereading. A failed renewal of an existing mark is not returned: a later poll writes that mark again.
    private func performWrites(
        _ writes: [MarkWrite],
        _ markNames: [String],
        _ primaries: [PrimaryMarks.PrimaryReading]
    ) -> Set<UInt32> {
        var failedAssignmentNumbers: Set<UInt32> = []
        for (primaryIndex, primary) in primaries.enumerated() {
            for mode in [
                PrimaryMarks.WriteMode.writeAllCopies, .replaceExistingCopies, .replaceFirstCopy,
            ] {
                let modeWrites = writes.filter { $0.primaryIndex == primaryIndex && $0.mode == mode }
                guard !modeWrites.isEmpty else { continue }
                let writeResults = primaryMarks.writeMarks(
                    modeWrites.map { (markNames[$0.partitionIndex], $0.mark.text) },
                    to: primary,
                    mode
                )
                for (write, isWritten) in zip(modeWrites, writeResults) where !isWritten && mode == .writeAllCopies {
                    failedAssignmentNumbers.insert(write.assignmentNumber)
                }
            }
        }
        return failedAssignmentNumbers
    }

    /// Passes the requests to the Kafka thread, and logs which servers have lost data.
    private func requestRereadings(
        _ requests: [RereadingRequest],
        _ writes: [MarkWrite],
        _ primaries: [PrimaryMarks.PrimaryReading]
    ) {
        guard !requests.isEmpty else { return }
        let rereadingIdentifiers = Set(requests.map(\.rereadingIdentifier))
        let primaryIndices = Set(
            writes.filter { $0.mark.rereadingIdentifier.map(rereadingIdentifiers.contains) ?? false }
                .map(\.primaryIndex)
        )
        .sorted()
        let servers = primaryIndices.map { "\(primaries[$0].location)" }.joined(separator: ", ")
        for isPrimaryEmptied in [true, false] {
            let requestCount = requests.count { $0.isPrimaryEmptied == isPrimaryEmptied }
            if requestCount > 0 {
                log(
                    isPrimaryEmptied ? .redisEmptied : .redisReplaced,
                    ["servers": "\(servers)", "partitions": "\(requestCount)"]
                )
            }
        }
        mailbox.request(requests)
        kafkaWakeup.signal()
    }
}
