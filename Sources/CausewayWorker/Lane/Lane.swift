import APNs
import ActivityStore
import Audiences
import Delivery
import LiveActivity
import Logging
import Observability
import Reactor

/// The shell around the two cores of one thread. The cores decide about records, commands and pushes, and the lane
/// carries out their decisions (R1). The lane itself decides only about its own I/O, such as how often it iterates
/// (`updateIterationIntervalMin`). It also tells the cores what only the shell knows, such as whether a pool permits
/// retries (`RetryPermission`).
///
/// Everything runs on the lane's own event loop (R2). Replies of Redis and responses of APNs go to the cores when they
/// arrive. At the end of the iteration, the lane takes orders, delivery reports and records. Then the cores decide, and
/// the lane carries out their actions, so that all writes of an iteration are sent together.
final class Lane: DescriptorHandler, TimerHandler, IterationEndHandler, LoggingThread {
    /// The least time between two iterations of a busy lane. Events that arrive meanwhile are handled in one iteration,
    /// so their writes are sent together.
    ///
    /// This saves most system calls: without a least time here and in the Kafka thread, the cricket season of
    /// `make demo` costs the worker 20 s of CPU instead of 8.7 s. The wait delays a push by a few milliseconds, which
    /// is little beside APNs' tens of milliseconds.
    static let iterationIntervalMicrosecondsMin: Int64 = 4_000
    /// The least time between two iterations while a pool is full (`LanePool.isFull`) and has pushes in flight. A
    /// stream that a response has freed is used only in the next iteration, so this time must be short: 20,000 pushes
    /// on one connection take 0.75 s, but 1.3 s with a wait of 4 ms.
    static let fullPoolIterationIntervalMicrosecondsMin: Int64 = 1_000
    /// The time between two reports in which the lane tells the Kafka thread which offsets it may commit. It is shorter
    /// than the time between two commits, which is 250 ms by default.
    static let offsetReportIntervalMilliseconds: Int64 = 100

    private enum TimerTag: UInt64 {
        case core, offsetReport
    }

    // MARK: - Thread and mailbox

    let number: Int
    let loop: EventLoop
    let mailbox: LaneMailbox
    let kafkaWakeup: Wakeup
    let setup: LaneSetup

    // MARK: - Cores

    /// The core for single activities.
    var delivery: Delivery
    /// The core for commands to audiences.
    var audiences: Audiences

    // MARK: - Stores and pools

    /// The lane owns this handler, and the handler refers to the lane `unowned`. Lazy, because the handler's
    /// initializer needs the initialized lane.
    private lazy var storeHandler = LaneStoreHandler(lane: self)
    private(set) lazy var activityStore = ActivityStore(
        loop: loop,
        configuration: setup.redisConfiguration,
        handler: storeHandler
    )
    private(set) lazy var audienceStore = AudienceStore(
        loop: loop,
        configuration: setup.redisConfiguration,
        handler: storeHandler
    )
    /// Whether the activity store has lost a connection before, so that the metrics count only reconnections.
    var redisConnectionHistory = RedisConnectionHistory()
    /// The pools, one for each app and environment, and perhaps a second one for broadcasts. A pool's position in this
    /// array is its number in the metrics.
    var pools: [LanePool] = []
    /// The provider token that each pool used last, by ``LanePool/metricIndex``.
    var providerTokenUses: [ProviderTokenUse]

    // MARK: - Kafka's records

    var partitions = LanePartitions()
    /// A record from the inbox that has no room in its core yet. The lane takes this record next.
    var entryAwaitingRoom: InboxEntry?
    var writer = JSONWriter()
    /// Whether a deferred record is written to the partition with its original record's partition number. False after
    /// the lane has found that the deferred topic has fewer partitions than the commands topic.
    var deferralsKeepPartitionNumber = true

    // MARK: - Metrics, log and traces

    var metrics: ThreadMetrics
    var log: LimitedLog
    let tracer: LaneTracer
    /// The metrics of each partition. The array is kept so that its memory is reused.
    var partitionReadings: [PartitionReading] = []
    /// For each app: how many superseded commands without a result the metrics already include.
    var publishedSupersededCounts: [UInt64]
    /// The gauges of each app's rounds. The array is kept so that its memory is reused.
    var roundGauges: [RoundGauges]

    // MARK: - The end of an iteration, and timers

    private var isIterationEndRequested = false
    private var coreTimer: TimerIdentifier?
    private var coreTimerDueMilliseconds: Int64 = .max

    // MARK: - Start

    init(number: Int, loop: EventLoop, mailbox: LaneMailbox, kafkaWakeup: Wakeup, setup: LaneSetup) throws {
        self.number = number
        self.loop = loop
        loop.iterationIntervalMicrosecondsMin = Self.iterationIntervalMicrosecondsMin
        self.mailbox = mailbox
        self.kafkaWakeup = kafkaWakeup
        self.setup = setup
        metrics = ThreadMetrics(publishingTo: setup.metricRegistry.laneMetrics[number])
        publishedSupersededCounts = setup.bundleIds.map { _ in 0 }
        roundGauges = setup.bundleIds.map { _ in RoundGauges() }
        providerTokenUses = setup.pools.map { _ in ProviderTokenUse() }
        log = LimitedLog(logger: setup.logger, events: setup.metricRegistry.events)
        tracer = LaneTracer(
            traceRing: setup.traceRings.isEmpty ? nil : setup.traceRings[number],
            samplesPerMillion: setup.traceSamplesPerMillion
        )
        var configuration = setup.deliveryConfiguration
        // Claims and `apns-id`s must differ between lanes, so each lane gets its own seed. The factor must not be the
        // increment of SplitMix64: each lane would then get the random numbers of its neighbour, shifted by one.
        configuration.seed = setup.deliveryConfiguration.seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03
        delivery = Delivery(configuration: configuration, now: Self.readMoment(of: loop))
        var audiencesConfiguration = setup.audiencesConfiguration
        // The core for audiences needs another seed than `delivery`. With the same seed, both cores would draw the same
        // claims and `apns-id`s.
        audiencesConfiguration.seed = ~configuration.seed
        audiences = Audiences(configuration: audiencesConfiguration)
        pools = setup.pools.enumerated().map { LanePool(metricIndex: $0, pool: $1, lane: self) }
        try loop.add(descriptor: mailbox.wakeup.descriptor, interest: .readable, handler: self)
        scheduleOffsetReport()
    }

    /// Begins to connect to Redis and APNs. Call this once, before the loop runs.
    func start() {
        activityStore.connect()
        audienceStore.connect()
        for pool in pools { pool.apnsPool.start() }
    }

    var now: Moment { Self.readMoment(of: loop) }

    private static func readMoment(of loop: EventLoop) -> Moment {
        Moment(monotonicMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
    }

    // MARK: - The iteration of the event loop

    func descriptorReady(_ events: DescriptorEvents) {
        mailbox.wakeup.reset()
        requestCallAtIterationEnd()
    }

    func timerFired(tag: UInt64) {
        switch TimerTag(rawValue: tag) {
        case .core:
            coreTimer = nil
            coreTimerDueMilliseconds = .max
        case .offsetReport:
            reportOffsets()
            requestRewinds()
            scheduleOffsetReport()
        case nil:
            preconditionFailure("a timer that no lane sets")
        }
        requestCallAtIterationEnd()
    }

    private func scheduleOffsetReport() {
        _ = loop.schedule(
            afterMilliseconds: Self.offsetReportIntervalMilliseconds,
            handler: self,
            tag: TimerTag.offsetReport.rawValue
        )
    }

    /// Makes the event loop call ``iterationEnded()`` at the end of this iteration. That call takes input, and carries
    /// out the cores' decisions. Call this method after every change of a core.
    func requestCallAtIterationEnd() {
        guard !isIterationEndRequested else { return }
        isIterationEndRequested = true
        loop.callAtIterationEnd(self)
    }

    /// Does the work of one iteration: takes input, lets the cores decide, and carries out their decisions.
    func iterationEnded() {
        isIterationEndRequested = false
        takeInput()
        advanceCores()
        carryOutActions()
        reportDrainedPartitions()
        armCoreTimer()
        publishMetricsIfDue()
        updateIterationIntervalMin()
    }

    private func updateIterationIntervalMin() {
        let isAnyFullPoolAwaitingResponses = pools.contains { $0.isFull && $0.apnsPool.inFlightPushCount > 0 }
        loop.iterationIntervalMicrosecondsMin =
            isAnyFullPoolAwaitingResponses
            ? Self.fullPoolIterationIntervalMicrosecondsMin : Self.iterationIntervalMicrosecondsMin
    }

    /// Takes what the Kafka thread has sent (orders, delivery reports, records), and passes it to the cores. Then logs
    /// one command that breaks its app's contract, and one held command that could not be read, if there are any.
    ///
    /// Orders come first: an assignment must begin before its first record is taken, and new settings apply to the
    /// records of the same iteration. The lag comes last, because it counts the records that are not taken yet.
    private func takeInput() {
        takeLaneOrders()
        takeDeliveryReports()
        takeRecords()
        logContractWarning()
        logHeldCommandFault()
        noteLag()
    }

    /// Lets the cores make their decisions, after all records of the iteration were received: newer states have
    /// replaced older ones, so only the newest states begin. The `exchange…` methods come last, because they pass on
    /// what the cores have decided in this iteration.
    private func advanceCores() {
        delivery.endBatch(now: now)
        delivery.advance(now: now)
        reportPoolRecovery()
        audiences.advance(now: now)
        exchangeAudienceCommands()
        exchangeMembershipChanges()
        exchangeChannelMessages()
    }

    /// Carries out the cores' decisions: calls to Redis, then pushes, then records for Kafka. This follows all
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

    /// Sets the timer for the time at which a core next has something to do. If the timer is already set for an earlier
    /// time, it is not moved: it fires, and is set again at the end of that iteration. This costs less than moving it
    /// in each iteration.
    private func armCoreTimer() {
        let dueMilliseconds = min(delivery.nextDueMilliseconds ?? .max, audiences.nextDueMilliseconds ?? .max)
        guard dueMilliseconds < coreTimerDueMilliseconds else { return }
        if let coreTimer { loop.cancel(coreTimer) }
        coreTimerDueMilliseconds = dueMilliseconds
        let waitMilliseconds = max(1, dueMilliseconds - loop.nowMilliseconds)
        coreTimer = loop.schedule(afterMilliseconds: waitMilliseconds, handler: self, tag: TimerTag.core.rawValue)
    }

    /// Discards the records that are left in the inbox, closes the connections, and publishes the metrics for the last
    /// time. Call this after the loop has ended.
    func close() {
        entryAwaitingRoom?.discard()
        while let entry = mailbox.inbox.pop() { entry.discard() }
        for pool in pools { pool.apnsPool.close() }
        activityStore.close()
        audienceStore.close()
        publishMetrics()
        // The lane runs no more iterations, and `/livez` must not report it as stuck.
        metrics.published.noteIterationPause(untilMilliseconds: .max)
    }
}
