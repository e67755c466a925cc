import APNs
import ActivityStore
import Audiences
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor

/// The shell around the cores of one thread. It carries out what the cores decide, and decides nothing
/// itself. (R2)
///
/// Everything runs on the lane's own event loop. Each iteration passes the events that have arrived to the cores:
/// orders, records, delivery reports, replies of Redis, responses of APNs. At the end of the iteration it carries
/// out the cores' actions, so that all writes of an iteration are sent together.
final class Lane: DescriptorHandler, TimerHandler, IterationEndHandler, LoggingThread {
    /// The least time between two iterations of a busy lane. Events that arrive meanwhile are handled in one iteration,
    /// so their writes are sent together.
    ///
    /// This saves most system calls: without a least time here and in the Kafka thread, the demo's season costs 20 s of
    /// CPU instead of 8.7 s. The time delays a push by a few milliseconds, which is little beside APNs' tens of
    /// milliseconds.
    static let iterationIntervalMicrosecondsMin: Int64 = 4_000
    /// The least time between two iterations while a pool is full (`LanePool.isFull`) and has pushes in flight. In each
    /// round trip, a connection sends at most as many requests as it has streams. The wait for an iteration lengthens
    /// the round trip, so it must be short: 20,000 pushes on one connection take 0.75 s, but 1.3 s if each iteration
    /// waits 4 ms.
    static let fullPoolIterationIntervalMicrosecondsMin: Int64 = 1_000
    /// The maximum number of records that one iteration takes from the inbox. This bounds the duration of an iteration.
    /// The number is large, because the newer states of an iteration replace the older ones before a command begins.
    static let recordsPerIterationMax = 4_096
    /// While a lane takes records, it produces the pending results after every 256 records. In a backlog, most of
    /// these records finish at once, and their memory is then still in the processor's cache.
    static let recordsTakenBetweenProducing = 256
    /// The maximum number of delivery reports that one iteration takes. This bounds the duration of an iteration.
    static let deliveryReportsPerIterationMax = 16_384
    /// How many delivery reports ahead a record is prefetched. A lane handles about six reports in the time
    /// of one memory access.
    static let deliveryReportPrefetchDistance = 6
    /// How far ahead in the inbox a record's message is prefetched; 0: the next record.
    private static let messagePrefetchDistance = 2
    /// How far ahead in the inbox a record's value is prefetched. Its message was prefetched two records earlier,
    /// because the value's address is in the message.
    private static let valuePrefetchDistance = 0
    /// How often the lane tells the Kafka thread which offsets it may commit. The Kafka thread commits four times a
    /// second by default.
    static let offsetReportIntervalMilliseconds: Int64 = 100

    private enum TimerTag {
        static let core: UInt64 = 0
        static let offsetReport: UInt64 = 1
    }

    let number: Int
    let loop: EventLoop
    let mailbox: LaneMailbox
    let kafkaWakeup: Wakeup
    private(set) var setup: LaneSetup

    var metrics: ThreadMetrics
    var log: LimitedLog
    var redisConnectionHistory = RedisConnectionHistory()
    /// The metrics of each partition. The array is kept so that its memory is reused.
    var partitionReadings: [PartitionReading] = []
    /// For each app: how many superseded commands without a result have been added to the metrics.
    var publishedSupersededCounts: [UInt64]
    /// The gauges of each app's rounds. The array is kept so that its memory is reused.
    var roundGauges: [RoundGauges]
    /// The provider token that each pool used last, by pool number.
    var providerTokenUses: [ProviderTokenUse]
    var delivery: Delivery
    var partitions = LanePartitions()
    private lazy var storeRelay = LaneStoreRelay(lane: self)
    private(set) lazy var store = ActivityStore(loop: loop, configuration: setup.redis, handler: storeRelay)
    /// The core for commands to audiences. `delivery` is the core for single activities.
    var audiences: Audiences
    /// The audience core's outgoing records that Kafka has not acknowledged.
    var unacknowledgedAudienceRecordCount = 0
    private(set) lazy var audienceStore = AudienceStore(loop: loop, configuration: setup.redis, handler: storeRelay)
    /// The pools, one for each app and environment. A pool's position is its number in the metrics.
    var pools: [LanePool] = []
    var writer = JSONWriter()
    /// Whether a deferred record goes to the partition with the number of its source partition. False after the
    /// deferred topic turned out to have fewer partitions.
    var defersToSourcePartition = true
    /// The lane reports no recovered pool before this time. Monotonic milliseconds.
    var nextRecoveryReportAtMilliseconds: Int64 = 0
    let tracer: LaneTracer
    /// A record from the inbox for which the core has no room yet.
    private var waitingEntry: InboxEntry?
    private var isIterationEndRequested = false
    private var coreTimer: TimerIdentifier?
    private var coreTimerDueMilliseconds: Int64 = .max

    init(number: Int, loop: EventLoop, mailbox: LaneMailbox, kafkaWakeup: Wakeup, setup: LaneSetup) throws {
        self.number = number
        self.loop = loop
        loop.iterationIntervalMicrosecondsMin = Self.iterationIntervalMicrosecondsMin
        self.mailbox = mailbox
        self.kafkaWakeup = kafkaWakeup
        self.setup = setup
        metrics = ThreadMetrics(publishingTo: setup.metricRegistry.lanes[number])
        publishedSupersededCounts = setup.bundleIdentifiers.map { _ in 0 }
        roundGauges = setup.bundleIdentifiers.map { _ in RoundGauges() }
        providerTokenUses = setup.pools.map { _ in ProviderTokenUse() }
        log = LimitedLog(logger: setup.logger, events: setup.metricRegistry.events)
        tracer = LaneTracer(
            ring: setup.traceRings.isEmpty ? nil : setup.traceRings[number],
            samplesPerMillion: setup.traceSamplesPerMillion
        )
        var configuration = setup.delivery
        // Claims and `apns-id`s must differ between lanes, so each lane gets its own seed. The factor must
        // not be SplitMix64's own increment. Otherwise each lane would get its neighbour's random numbers one
        // step later.
        configuration.seed = setup.delivery.seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03
        delivery = Delivery(configuration: configuration, now: Self.moment(of: loop))
        var audiencesConfiguration = setup.audiences
        audiencesConfiguration.seed = ~configuration.seed
        audiences = Audiences(configuration: audiencesConfiguration)
        pools = setup.pools.enumerated().map { LanePool(number: $0, pool: $1, lane: self) }
        try loop.add(descriptor: mailbox.wakeup.descriptor, interest: .readable, handler: self)
        _ = loop.schedule(
            afterMilliseconds: Self.offsetReportIntervalMilliseconds,
            handler: self,
            tag: TimerTag.offsetReport
        )
    }

    func start() {
        store.connect()
        audienceStore.connect()
        for pool in pools { pool.apnsPool.start() }
    }

    var now: Moment { Self.moment(of: loop) }

    private static func moment(of loop: EventLoop) -> Moment {
        Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
    }

    // MARK: - The iteration of the event loop

    func descriptorReady(_ events: Interest) {
        mailbox.wakeup.drain()
        requestIterationEnd()
    }

    func timerFired(tag: UInt64) {
        if tag == TimerTag.offsetReport {
            reportOffsets()
            requestRewinds()
            _ = loop.schedule(
                afterMilliseconds: Self.offsetReportIntervalMilliseconds,
                handler: self,
                tag: TimerTag.offsetReport
            )
        } else {
            coreTimer = nil
            coreTimerDueMilliseconds = .max
        }
        requestIterationEnd()
    }

    /// Makes the event loop call ``iterationEnded()`` at the end of this iteration. That call carries out the cores'
    /// decisions. Call this method after every change of a core.
    func requestIterationEnd() {
        guard !isIterationEndRequested else { return }
        isIterationEndRequested = true
        loop.callAtIterationEnd(self)
    }

    func iterationEnded() {
        isIterationEndRequested = false
        takeInput()
        advanceCores()
        carryOutActions()
        reportDrainedPartitions()
        armCoreTimer()
        publishMetricsIfDue()
        let isAnyFullPoolAwaitingResponses = pools.contains { $0.isFull && $0.apnsPool.inFlightPushCount > 0 }
        loop.iterationIntervalMicrosecondsMin =
            isAnyFullPoolAwaitingResponses
            ? Self.fullPoolIterationIntervalMicrosecondsMin : Self.iterationIntervalMicrosecondsMin
    }

    /// Takes what the Kafka thread has sent (orders, delivery reports, records), and passes it to the cores.
    ///
    /// Orders come first: an assignment must begin before its first record is taken, and new settings apply to the
    /// records of the same iteration. The lag comes last, because it counts the records that are not taken yet.
    private func takeInput() {
        takeLaneOrders()
        takeDeliveryReports()
        takeRecords()
        logContractWarning()
        reportLag()
    }

    /// Lets the cores make their decisions, after all records of the iteration were received: newer states have
    /// replaced older ones, so only the newest states begin. The exchanges come last. Each passes to one core what the
    /// other core has decided in this iteration.
    private func advanceCores() {
        delivery.endBatch(now: now)
        delivery.advance(now: now)
        reportPoolRecovery()
        audiences.advance(now: now)
        exchangeAudienceCommands()
        exchangeMemberships()
        exchangeChannelMessages()
    }

    /// Carries out the cores' decisions: calls of Redis, then pushes, then records for Kafka. This follows all
    /// decisions of the iteration, so that the calls make as few batches as possible. (If the iteration has taken many
    /// records, `takeRecords` has already produced some of the records for Kafka.)
    private func carryOutActions() {
        performStoreCalls()
        performTokenRetirementCalls()
        performAudienceStoreCalls()
        performPushes()
        produceOutgoingRecords()
        produceOutgoingAudienceRecords()
    }

    private func armCoreTimer() {
        let dueMilliseconds = min(delivery.nextDueMilliseconds ?? .max, audiences.nextDueMilliseconds ?? .max)
        guard dueMilliseconds < coreTimerDueMilliseconds else { return }
        if let coreTimer { loop.cancel(coreTimer) }
        coreTimerDueMilliseconds = dueMilliseconds
        let waitMilliseconds = max(1, dueMilliseconds - loop.nowMilliseconds)
        coreTimer = loop.schedule(afterMilliseconds: waitMilliseconds, handler: self, tag: TimerTag.core)
    }

    // MARK: - Input from the Kafka thread

    private func takeLaneOrders() {
        while let order = mailbox.orders.pop() {
            switch order.kind {
            case .assign: assign(order)
            case .revoke: revoke(order)
            case .release: release(order)
            case .noteHighWatermark: noteHighWatermark(order)
            case .takeSettings: takeSettings()
            case .stop: loop.stop()
            }
        }
    }

    private func takeSettings() {
        guard let settings = mailbox.takeSettings() else { return }
        setup.delivery.readAheadLagRecords = settings.readAheadLagRecords
        setup.delivery.deferredDelayMilliseconds = settings.deferredDelayMilliseconds
        delivery.apply(settings)
        audiences.apply(settings)
    }

    /// Reports to the core how many records of each partition of the commands topic the lane has not taken yet. The
    /// lane does this once an iteration, before the core begins to work on new records.
    private func reportLag() {
        for entryIndex in partitions.entries.indices where partitions[entryIndex].topic == Intake.commandsTopicIndex {
            let (recordCount, isAssumed) = partitions.countUntakenRecords(
                at: entryIndex,
                assumedRecordCount: setup.delivery.readAheadLagRecords + 1,
                nowMilliseconds: loop.nowMilliseconds
            )
            delivery.noteLag(
                partitions[entryIndex].indexInCore,
                recordCount: recordCount,
                isAssumed: isAssumed,
                now: now
            )
        }
    }

    private func takeRecords() {
        var takenCount = 0
        while takenCount < Self.recordsPerIterationMax, delivery.canReceive {
            guard let entry = waitingEntry ?? mailbox.inbox.pop() else { return }
            waitingEntry = nil
            prefetchRecords()
            // If the lane does not know the partition, take the orders now: the Kafka thread may have sent the
            // `LaneOrder` that assigns the partition after this iteration took its orders.
            if partitions.entryIndex(topic: entry.topic, partition: entry.partition) == nil { takeLaneOrders() }
            guard takeUnlessFull(entry) else {
                waitingEntry = entry
                return
            }
            takenCount += 1
            if takenCount % Self.recordsTakenBetweenProducing == 0 { produceOutgoingRecords() }
        }
        // If the core can take another record, request another iteration. If the core is full, the next record that
        // settles requests one.
        if delivery.canReceive { mailbox.wakeup.signal() }
    }

    /// Prefetches the next records while this record is handled. Another thread wrote them, so they are not
    /// in this processor's cache.
    private func prefetchRecords() {
        if let entry = mailbox.inbox.peek(at: Self.messagePrefetchDistance),
            let pointer = Message.Pointer(bitPattern: entry.messageAddress)
        {
            Message.prefetch(pointer)
        }
        if let entry = mailbox.inbox.peek(at: Self.valuePrefetchDistance),
            let pointer = Message.Pointer(bitPattern: entry.messageAddress)
        {
            Message.prefetchValue(of: pointer)
        }
    }

    /// Gives one record to its core. Drops a record whose assignment has ended, or that a requested rewind reads again.
    /// Returns whether the entry was taken; true also if its record was dropped. If the core has no room for a record
    /// of this partition yet, the entry keeps its message, and the caller tries again later.
    private func takeUnlessFull(_ entry: InboxEntry) -> Bool {
        guard let pointer = Message.Pointer(bitPattern: entry.messageAddress) else { return true }
        let message = Message(taking: pointer)
        guard let entryIndex = partitions.entryIndex(topic: entry.topic, partition: entry.partition),
            partitions[entryIndex].expects(entry)
        else { return true }
        let indexInCore = partitions[entryIndex].indexInCore
        guard hasRoom(for: message.offset, partitions[entryIndex]) else {
            _ = message.releaseOwnership()
            return false
        }
        partitions[entryIndex].nextOffset = message.offset + 1
        metrics.add(.recordsReceived, Int(entry.topic))
        let record = IncomingRecord(
            partition: indexInCore,
            offset: message.offset,
            timestampMilliseconds: message.timestampMilliseconds,
            key: message.key,
            value: message.value,
            trace: tracer.writeTrace(of: message)
        )
        if entry.topic == Intake.fanoutTopicIndex {
            audiences.receive(
                record,
                instruction: FanoutHeaders.readInstruction(of: message),
                droppedFields: DroppedFieldsHeader.read(from: message),
                now: now
            )
        } else if entry.topic == Intake.deferredTopicIndex, let deferral = DeferredHeaders.readDeferral(of: message) {
            delivery.receive(
                record,
                deferred: deferral,
                droppedFields: DroppedFieldsHeader.read(from: message),
                now: now
            )
        } else {
            delivery.receive(record, now: now)
        }
        return true
    }

    private func takeDeliveryReports() {
        var takenCount = 0
        while takenCount < Self.deliveryReportsPerIterationMax, let report = mailbox.deliveryReports.pop() {
            takenCount += 1
            if let audienceRecord = OutgoingAudienceRecord(tag: report.tag) {
                unacknowledgedAudienceRecordCount -= 1
                if report.errorCode == 0 { countAcknowledged(audienceRecord) }
                audiences.produceReportReceived(audienceRecord, Self.makeProduceReport(of: report.errorCode), now: now)
                continue
            }
            // Prefetch the record of a later report. It was produced a while ago and has left the processor's
            // cache.
            if let laterReport = mailbox.deliveryReports.peek(at: Self.deliveryReportPrefetchDistance),
                let laterRecord = OutgoingRecord(tag: laterReport.tag)
            {
                delivery.prefetchRecord(of: laterRecord)
            }
            guard let outgoingRecord = OutgoingRecord(tag: report.tag) else { continue }
            if report.errorCode == 0 { countAcknowledged(outgoingRecord) }
            noteDeferralFailure(report.errorCode, of: outgoingRecord)
            delivery.produceReportReceived(outgoingRecord, Self.makeProduceReport(of: report.errorCode), now: now)
        }
        if takenCount == Self.deliveryReportsPerIterationMax { mailbox.wakeup.signal() }
    }

    static func makeProduceReport(of error: Int32) -> ProduceReport {
        switch error {
        case 0: .acknowledged
        case KafkaError.messageTooLargeCode: .tooLarge
        default: .failed
        }
    }

    /// Discards the records that are left in the inbox, closes the connections, and publishes the metrics for the last
    /// time. Call this after the loop has ended.
    func close() {
        waitingEntry?.discard()
        while let entry = mailbox.inbox.pop() { entry.discard() }
        for pool in pools { pool.apnsPool.close() }
        store.close()
        audienceStore.close()
        publishMetrics()
        // The lane runs no more iterations. Without this call `/livez` would report it as stuck.
        metrics.published.announceBlocking(untilMilliseconds: .max)
    }
}
