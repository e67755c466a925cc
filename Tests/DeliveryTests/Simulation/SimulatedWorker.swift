import Delivery
import LiveActivity

/// One worker with one lane. It runs the real core; queues of items with due times replace the shells.
final class SimulatedWorker {
    /// Where a worker is in a partition's log.
    struct Position {
        /// The core's index of the partition.
        var indexInCore: UInt32
        /// The next offset that the worker reads. `.max`: the worker reads nothing more, because it is losing the
        /// partition.
        var nextOffset: Int64
    }

    enum PushFate {
        case processed
        case refused(status: UInt16)
        case lostBeforeProcessing, lostAfterProcessing
        /// APNs refused the stream: RST_STREAM with REFUSED_STREAM.
        case refusedStream
        /// APNs refused the provider token: status 403.
        case providerTokenRefused
        /// APNs responded with 400 BadDeviceToken to every token of the pool. So the response says nothing about this
        /// token.
        case everyTokenRefused
        /// APNs responded with 400 and an unknown reason.
        case unknownReason
    }

    /// A push that was sent and has no response yet.
    struct Push {
        var dueMilliseconds: Int64
        var record: RecordIndex
        var fate: PushFate
        /// The number of the connection that carries the push; nil in a run without connections.
        var connection: UInt32?
    }

    /// The worker's number among all workers of a run, including dead ones.
    let number: Int
    var delivery: Delivery
    let clockSkewMilliseconds: Int64
    var positions: [SimulatedLog.Partition: Position] = [:]
    var nextCommitAtMilliseconds: Int64 = 0
    /// The calls without a reply, in the order in which they were sent. A connection keeps this order.
    var storeCalls: [(dueMilliseconds: Int64, call: StoreCall<[UInt8]>)] = []
    var pushes: [Push] = []
    var connections: [SimulatedConnection] = []
    var connectionCount: UInt32 = 0
    /// The last response to each record's push, by record; used only in runs with connections.
    var lastResponses: [RecordIndex: SimulatedConnection.LastResponse] = [:]
    var retryPermission = RetryPermission()
    var outgoingRecords:
        [(dueMilliseconds: Int64, outgoingRecord: OutgoingRecord, isAcknowledged: Bool, isAppended: Bool)] = []

    /// Commands on their way to the audiences, in runs that simulate audiences.
    var handovers: [(dueMilliseconds: Int64, record: RecordIndex)] = []
    var undeliveredMembershipChanges: [UndeliveredMembershipChange] = []
    /// Used only in runs in which Redis loses data and the records are read again.
    var rereading = SimulatedRereading()

    init(
        number: Int,
        parameters: SimulationParameters,
        seed: UInt64,
        clockSkewMilliseconds: Int64,
        nowMilliseconds: Int64
    ) {
        self.number = number
        self.clockSkewMilliseconds = clockSkewMilliseconds
        var configuration = DeliveryConfiguration(
            apps: [
                .init(bundleId: Array(Simulation.app.utf8), hasProductionPool: true, hasSandboxPool: false)
            ],
            seed: seed
        )
        configuration.recordsMax = parameters.recordsMax
        configuration.creditsPerPoolMax = parameters.pushesInFlightMax
        configuration.ledgerSpanOffsetCount = 64
        configuration.reloadable.policies = [parameters.policy]
        configuration.supersededResults = parameters.supersededResults
        configuration.reloadable.readAheadLagRecords = parameters.readAheadLagRecords
        configuration.reloadable.readAheadMillisecondsMax = 5_000
        configuration.reloadable.deferAfterMilliseconds = parameters.deferrals?.deferAfterMilliseconds ?? 1 << 40
        if let deferrals = parameters.deferrals {
            configuration.reloadable.deferredDelayMilliseconds = deferrals.deferredDelayMilliseconds
            configuration.lengthenCarrierWait()
        } else {
            configuration.reloadable.deferredDelayMilliseconds = 1 << 40
        }
        delivery = Delivery(
            configuration: configuration,
            now: Moment(
                monotonicMilliseconds: nowMilliseconds,
                wallMilliseconds: nowMilliseconds + clockSkewMilliseconds
            )
        )
    }

    func moment(_ nowMilliseconds: Int64) -> Moment {
        Moment(monotonicMilliseconds: nowMilliseconds, wallMilliseconds: nowMilliseconds + clockSkewMilliseconds)
    }

    /// The next time at which the core or an item of this worker is due; `.max` if there is none.
    var nextDueMilliseconds: Int64 {
        var due = delivery.nextDueMilliseconds ?? .max
        if let first = storeCalls.first { due = min(due, first.dueMilliseconds) }
        for push in pushes { due = min(due, push.dueMilliseconds) }
        for entry in handovers { due = min(due, entry.dueMilliseconds) }
        for change in undeliveredMembershipChanges { due = min(due, change.dueMilliseconds) }
        for outgoingRecord in outgoingRecords { due = min(due, outgoingRecord.dueMilliseconds) }
        return due
    }

    var isIdle: Bool {
        let counted = delivery.unacknowledgedRecordCount + delivery.recordsAwaitingStoreCount
        precondition(counted <= delivery.inProgressRecordCount, "more records wait for something than there are")
        return delivery.inProgressRecordCount == 0 && storeCalls.isEmpty && pushes.isEmpty && outgoingRecords.isEmpty
    }
}
