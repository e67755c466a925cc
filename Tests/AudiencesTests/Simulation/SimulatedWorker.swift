import Audiences
import Delivery
import LiveActivity

/// One worker with one lane. It runs the real core; queues of items with due times replace the shells.
final class SimulatedWorker {
    struct PartitionAssignment {
        /// The core's index of the partition.
        var indexInCore: UInt32
        var nextOffset: Int64
        var isBeingRevoked = false
        /// Until when the worker reads nothing of the partition, because the core asked for a pause; `.min`: no pause.
        var pausedUntilMilliseconds = Int64.min
    }

    enum PushFate {
        case processed
        case refused(PushResult.Disposition, status: UInt16)
        case lostBeforeDelivery, lostAfterDelivery
    }

    struct Push {
        var dueMilliseconds: Int64
        var audiencePush: AudiencePush
        var token: String
        var body: [UInt8]
        var fate: PushFate
        var environment: APNsEnvironment
    }

    struct PendingOutgoingRecord {
        var dueMilliseconds: Int64
        var outgoingRecord: OutgoingAudienceRecord
        var isAcknowledged: Bool
        /// What the simulation does when Kafka gets the record; nil if Kafka does not get it.
        var simulatedRecord: SimulatedRecord?
    }

    let number: Int
    var core: Audiences
    var assignments: [Int: PartitionAssignment] = [:]
    var storeCalls: [(dueMilliseconds: Int64, call: AudienceCall<[UInt8]>)] = []
    var activityStoreCalls: [(dueMilliseconds: Int64, tag: UInt64)] = []
    var pushes: [Push] = []
    var outgoingRecords: [PendingOutgoingRecord] = []
    /// When the worker last took a broadcast from its core, by the environment of the audience's channel.
    var lastBroadcastAtMilliseconds: [APNsEnvironment: Int64] = [:]
    /// The checkpoint that the store returned with the claim of each range, by range.
    var claimedCheckpoints: [SegmentRange: [UInt8]] = [:]

    init(number: Int, parameters: SimulationParameters, seed: UInt64) {
        self.number = number
        var policy = Policy(name: "default")
        policy.expiration.alertSeconds = 43_200
        // A worker with little room gives up parked members when these times of its policy are over. In the simulation,
        // all members must show the newest state at the end. So the times are long, except in workers with much room.
        let hasLargeLedgers = parameters.memberCount % 5 == 0
        if !hasLargeLedgers || seed / 8 % 3 != 0 {
            (policy.expiration.updateSeconds, policy.expiration.endSeconds) = (43_200, 43_200)
        }
        // In half of the runs in which few members can be parked, there is a second app. So the first one must leave it
        // room for parked members. No command is for the second app.
        let apps = parameters.memberCount % 6 == 3 ? [Simulation.app, "com.example.neighbour"] : [Simulation.app]
        var reloadable = ReloadableSettings(appCount: apps.count)
        reloadable.policies = [policy]
        var configuration = AudiencesConfiguration(
            apps: apps.map {
                .init(bundleId: Array($0.utf8), hasProductionPool: true, hasSandboxPool: true)
            },
            reloadable: reloadable,
            seed: seed
        )
        // All workers of a run have ledgers of the same size, because they take over each other's settled offsets.
        configuration.ledgerSpanOffsetCount = hasLargeLedgers ? 1 << 12 : 64
        // In a third of the runs, no worker can park more than eight members. All workers of a run have the same limit,
        // because each of them must be able to park the members that another one had parked.
        if parameters.memberCount % 3 == 0 { configuration.parkedMembersMax = 8 }
        // In a fifth of the runs, a few parked members halt a round.
        if parameters.memberCount % 5 == 1 { configuration.parkedCountThatHaltsRound = 4 }
        // In a fifth of the runs, a few commands use up the bytes for commands.
        if parameters.memberCount % 5 == 3 { configuration.commandBytesMax = 2_000 }
        // In a seventh of the runs, a round's turn ends after two pushes.
        if parameters.memberCount % 7 == 2 { configuration.consecutivePushesMax = 2 }
        // In a quarter of the runs, the store counts as a cluster, so the pages of running rounds wait for members too.
        if parameters.memberCount % 4 == 2 { configuration.hasSeveralStoreServers = true }
        // The seed chooses these three limits. The divisors differ, so that each value of a limit occurs with each
        // value of the others.
        configuration.pagesMax = [1, 8, 64][Int(seed % 3)]
        // Some workers have room for only a few records. They pass over further records, and read them again later.
        configuration.fanoutRecordBytesMax = [64 << 20, 1_500, 3_000][Int(seed / 8 % 3)]
        if seed / 24 % 2 == 0 { configuration.pageBytesMax = 1 }
        core = Audiences(configuration: configuration)
    }

    var gauges: RoundGauges {
        var gauges = [RoundGauges()]
        core.addGauges(to: &gauges)
        return gauges[0]
    }

    /// Whether the worker must read a partition again because of records that it passed over, now or after a pause.
    func hasPassedOverRecords(atMilliseconds: Int64) -> Bool {
        assignments.values.contains {
            !$0.isBeingRevoked
                && (core.passedOverCount($0.indexInCore) > 0 || $0.pausedUntilMilliseconds > atMilliseconds)
        }
    }

    func moment(_ nowMilliseconds: Int64) -> Moment {
        Moment(monotonicMilliseconds: nowMilliseconds, wallMilliseconds: nowMilliseconds)
    }

    var nextDueMilliseconds: Int64 {
        var dueMilliseconds = core.nextDueMilliseconds ?? .max
        if let first = storeCalls.first { dueMilliseconds = min(dueMilliseconds, first.dueMilliseconds) }
        for call in activityStoreCalls { dueMilliseconds = min(dueMilliseconds, call.dueMilliseconds) }
        for push in pushes { dueMilliseconds = min(dueMilliseconds, push.dueMilliseconds) }
        for outgoingRecord in outgoingRecords { dueMilliseconds = min(dueMilliseconds, outgoingRecord.dueMilliseconds) }
        return dueMilliseconds
    }

    var isIdle: Bool {
        core.commandCount == 0 && core.fanoutRecordCount == 0 && core.roundCount == 0
            && core.membershipChangeCount == 0
            && storeCalls.isEmpty && !assignments.values.contains { core.passedOverCount($0.indexInCore) > 0 }
            && activityStoreCalls.isEmpty && pushes.isEmpty && outgoingRecords.isEmpty
    }
}

/// What the simulation needs of a record that a worker produces. It acts on the record when Kafka gets it.
enum SimulatedRecord {
    case fanout(partition: Int, SimulatedFanout)
    case rangeResult(String)
    case commandResult(String)
    case broadcastResult(String)
    case invalidation
    case start(String)
    case memberResult(command: String)
}

struct SimulatedFanout {
    var value: [UInt8]
    var instruction: FanoutInstruction
}
