import Delivery
import LiveActivity

/// Runs the core without I/O. It allows each admission as Redis would, accepts each push as APNs would and acknowledges
/// each result as Kafka would. So the measured time is that of the core and of writing the results.
final class CoreRun {
    static let activityCount = 4_096
    static let activitiesPerBatch = 512
    /// The time between two batches. Eight batches reach all activities, so each activity gets commands every 2 s. This
    /// is twice its spacing, so the core forgets the activity between these commands and creates it again.
    static let batchMilliseconds: Int64 = 250

    private var delivery: Delivery
    private var now = Moment(monotonicMilliseconds: 1_000_000, wallMilliseconds: CommandFeed.firstTimestamp * 1_000)
    private let partitionIndex: UInt32
    private let pool = PoolTarget(appIndex: 0, environment: .production)
    private var feed: CommandFeed
    private let token = Array("80f3c1d2a4b596e7080f3c1d2a4b596e7080f3c1d2a4b596e7080f3c1d2a4b59".utf8)
    private let topic: [UInt8]
    private var writer = JSONWriter(capacity: 4_096)
    /// The store calls that await a reply. For an admission, `timestamp` is that of its command; for a settlement, it
    /// is nil.
    private var calls: [(tag: UInt64, timestamp: Int64?)] = []
    private var pushes: [RecordIndex] = []
    private var outgoingRecords: [OutgoingRecord] = []
    private var nextOffset: Int64 = 0
    private var nextActivity = 0
    private(set) var pushCount = 0
    private(set) var resultBytes: UInt64 = 0

    init(_ workload: Workload) {
        feed = CommandFeed(
            activityCount: Self.activityCount,
            states: workload.states,
            hasChangingStates: workload.hasChangingStates
        )
        var configuration = DeliveryConfiguration(
            apps: [.init(bundleId: CommandFeed.app, hasProductionPool: true, hasSandboxPool: true)],
            seed: 1
        )
        if workload.hasShapes {
            let contract = CommandFeed.shapes.withUnsafeBytes { bytes in
                try? Contract(shapes: bytes, ofApp: String(decoding: CommandFeed.app, as: UTF8.self))
            }
            guard let contract else { preconditionFailure("the benchmark's shapes can be read") }
            configuration.reloadable.apps[0].contract = ContractRule(contract: contract, rejectsMismatches: true)
        }
        configuration.creditsPerPoolMax = Self.activitiesPerBatch
        topic = configuration.commandsTopic
        delivery = Delivery(configuration: configuration, now: now)
        guard let partitionIndex = delivery.assign(topic: .commands, number: 0) else {
            preconditionFailure("a core without partitions has place for one")
        }
        self.partitionIndex = partitionIndex
    }

    /// Processes about `commands` commands from their bytes to their settled offsets.
    ///
    /// - Returns: the exact number of commands.
    func run(_ workload: Workload, commands: Int) -> Int {
        let commandsPerBatch = Self.activitiesPerBatch * workload.commandsPerActivity
        let batchCount = max(1, commands / commandsPerBatch)
        for _ in 0..<batchCount { runBatch(workload) }
        precondition(delivery.counters(of: 0).undecodableCommandCount == 0, "the commands fit the shapes")
        if workload == .alternatingShaped { precondition(delivery.comparedStateCount <= workload.states.count) }
        if workload == .inningsShaped { precondition(delivery.comparedStateCount <= 10) }
        if workload == .unlikeShaped { precondition(Int64(delivery.comparedStateCount) > nextOffset * 9 / 10) }
        precondition(delivery.inProgressRecordCount == 0 && delivery.committableOffset(partitionIndex) == nextOffset)
        return batchCount * commandsPerBatch
    }

    private func runBatch(_ workload: Workload) {
        now.monotonicMilliseconds += Self.batchMilliseconds
        now.wallMilliseconds += Self.batchMilliseconds
        delivery.advance(now: now)
        for version in 0..<workload.commandsPerActivity {
            for activity in nextActivity..<nextActivity + Self.activitiesPerBatch {
                receive(feed.command(of: activity, timestamp: now.wallMilliseconds / 1_000 + Int64(version)))
            }
        }
        nextActivity = (nextActivity + Self.activitiesPerBatch) % Self.activityCount
        delivery.endBatch(now: now)
        while replyToStoreCalls() || respondToPushes() || acknowledgeOutgoingRecords() {}
    }

    private func receive(_ value: UnsafeRawBufferPointer) {
        delivery.receive(
            IncomingRecord(
                partitionIndex: partitionIndex,
                offset: nextOffset,
                timestampMilliseconds: now.wallMilliseconds,
                key: nil,
                value: value
            ),
            now: now
        )
        nextOffset += 1
    }

    /// Replies to all store calls of the core. Returns whether there was a call.
    private func replyToStoreCalls() -> Bool {
        while let call = delivery.withNextStoreCall(now: now, { Self.tagAndTimestamp($0) }) {
            delivery.removeNextStoreCall()
            calls.append(call)
        }
        token.withUnsafeBytes { token in
            for (tag, timestamp) in calls { delivery.handleStoreReply(tag: tag, makeReply(timestamp, token), now: now) }
        }
        defer { calls.removeAll(keepingCapacity: true) }
        return !calls.isEmpty
    }

    private static func tagAndTimestamp(_ call: StoreCall<UnsafeRawBufferPointer>) -> (tag: UInt64, timestamp: Int64?) {
        guard case .admit(let admission) = call.operation else { return (call.tag, nil) }
        return (call.tag, admission.version.timestamp)
    }

    /// Makes the reply to a store call.
    ///
    /// - Parameter timestamp: the timestamp of the command to send; nil for a settlement.
    private func makeReply(_ timestamp: Int64?, _ token: UnsafeRawBufferPointer) -> StoreReply<UnsafeRawBufferPointer> {
        guard let timestamp else { return StoreReply(.settled) }
        var reply = StoreReply<UnsafeRawBufferPointer>(.send)
        reply.timestamp = timestamp
        reply.registration = TokenRegistration(
            token: token,
            environment: .production,
            registeredAtMilliseconds: CommandFeed.firstTimestamp * 1_000
        )
        reply.priority = 5
        reply.budgetLeft = 15
        return reply
    }

    private func respondToPushes() -> Bool {
        while let record = delivery.takeNextPush(pool, now: now) { pushes.append(record) }
        let acceptedResult = PushResult(
            disposition: .accepted,
            status: 200,
            reason: UnsafeRawBufferPointer(start: nil, count: 0),
            invalidAtWallMilliseconds: nil,
            sentAtWallMilliseconds: now.wallMilliseconds,
            responseAtWallMilliseconds: now.wallMilliseconds
        )
        for record in pushes { delivery.handlePushResponse(record, acceptedResult, now: now) }
        pushCount += pushes.count
        defer { pushes.removeAll(keepingCapacity: true) }
        return !pushes.isEmpty
    }

    private func acknowledgeOutgoingRecords() -> Bool {
        while let outgoingRecord = delivery.nextOutgoingRecord(now: now) {
            writeResult(delivery.view(outgoingRecord.record))
            delivery.removeNextOutgoingRecord(outgoingRecord)
            outgoingRecords.append(outgoingRecord)
        }
        for outgoingRecord in outgoingRecords {
            delivery.handleDeliveryReport(outgoingRecord, .acknowledged, now: now)
        }
        defer { outgoingRecords.removeAll(keepingCapacity: true) }
        return !outgoingRecords.isEmpty
    }

    /// Writes a result's JSON as a lane of the worker does, so that the measured time contains this work. Nothing is
    /// sent to Kafka.
    private func writeResult(_ view: RecordView) {
        writer.reset()
        topic.withUnsafeBytes { topic in
            CommandFeed.app.withUnsafeBytes { app in
                var result = ResultRecord(
                    outcome: view.outcome,
                    sourceTopic: topic,
                    sourcePartition: view.sourcePartition,
                    sourceOffset: view.sourceOffset
                )
                result.commandIdentifier = view.commandIdentifier
                result.app = app
                result.activity = view.activity
                result.status = view.httpStatus ?? 0
                result.reason = view.reason.isEmpty ? nil : view.reason
                result.isLifetimeCommand = view.isLifetimeCommand
                if view.attemptCount > 0 {
                    result.apnsId = view.apnsId
                    result.sentTimestamp = view.sentTimestamp
                }
                result.priority = view.priority
                result.isDemoted = view.isDemoted
                result.budgetLeft = view.budgetLeft ?? -1
                result.droppedFieldNames = view.droppedFields
                result.policy = view.policyName.isEmpty ? nil : view.policyName
                result.attemptCount = Int(view.attemptCount)
                result.recordTimestampMilliseconds = view.recordTimestampMilliseconds
                result.receivedAtMilliseconds = view.receivedAtWallMilliseconds
                result.admittedAtMilliseconds = view.admittedAtWallMilliseconds ?? -1
                result.sentAtMilliseconds = view.sentAtWallMilliseconds ?? -1
                result.responseAtMilliseconds = view.responseAtWallMilliseconds ?? -1
                result.write(to: &writer)
            }
        }
        resultBytes &+= UInt64(writer.bytes.count)
    }
}
