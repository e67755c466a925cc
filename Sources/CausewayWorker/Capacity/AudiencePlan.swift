import Audiences
import LiveActivity

/// The size of a fleet for one audience, and how long a command takes to reach all its members. All results are whole
/// numbers, rounded up. Rates, such as ``pushesPerSecond``, are those in the busiest minute.
package struct AudiencePlan: Sendable, Equatable {
    package let demand: AudienceDemand
    package let costs: MeasuredCosts

    /// The push rate that the rounds of a command need, so that they take only `fleet.laneBusyPercentMax` per cent of
    /// the time until the next command.
    package private(set) var pushesPerSecond: Int64 = 0
    /// Processors that are busy at the peak, in hundredths of a processor.
    package private(set) var busyProcessorHundredths: Int64 = 0
    package private(set) var pods: Int64 = 0
    package private(set) var lanes: Int64 = 0
    package private(set) var podMebibytes: Int64 = 0
    /// The number of ranges into which the members are divided. Each range has a round of its own in one lane, so at
    /// most this many lanes can work on one command.
    package private(set) var ranges: Int64 = 0
    package private(set) var partitions: Int64 = 0

    package private(set) var connectionsPerPool: Int64 = 0
    package private(set) var connections: Int64 = 0
    package private(set) var apnsMegabitsPerSecond: Int64 = 0
    /// The time from a command's record in Kafka until APNs has responded to its last push, if all pods work.
    package private(set) var deliveryMilliseconds: Int64 = 0

    /// Redis' memory for the pages, which list the audience's members.
    package private(set) var membersMebibytes: Int64 = 0
    /// Redis' memory for the values of activities. Each value has the activity's state and token.
    package private(set) var activitiesMebibytes: Int64 = 0
    package var redisMebibytes: Int64 { membersMebibytes + activitiesMebibytes }
    /// How busy the rounds keep Redis, in per cent of one processor. Above 100, they need more than one processor.
    package private(set) var redisProcessorPercent: Int64 = 0
    package private(set) var redisNodes: Int64 = 0

    /// The number of records that one command writes to the fan-out topic: one for each range.
    package var fanoutRecords: Int64 { ranges }
    package var resultRecords: Int64 { ranges + 1 }

    /// - Throws: ``CapacityError`` that names the first number of the demand outside its range.
    package init(demand: AudienceDemand, costs: MeasuredCosts = MeasuredCosts()) throws(CapacityError) {
        try demand.validate()
        self.demand = demand
        self.costs = costs
        ranges = Int64(Audiences.rangeCount(members: Double(demand.members)))
        planPods()
        planConnections()
        planRound()
        planRedis()
    }

    /// The number of pushes to members in one minute. A member gets at most one state a second.
    private var pushesPerMinute: Int64 { demand.members * min(demand.updatesPerMinute, 60) }

    private mutating func planPods() {
        pushesPerSecond = CapacityPlan.ceilingQuotient(pushesPerMinute * 100, 60 * demand.fleet.laneBusyPercentMax)
        // 600,000,000 nanoseconds a minute are one hundredth of a processor.
        let workingProcessorHundredths = CapacityPlan.ceilingQuotient(
            pushesPerMinute * costs.cpuNanosecondsPerMember,
            600_000_000
        )
        pods = max(
            CapacityPlan.podsMin,
            CapacityPlan.ceilingQuotient(
                workingProcessorHundredths,
                demand.fleet.processorsPerPod * demand.fleet.laneBusyPercentMax
            )
                + 1
        )
        busyProcessorHundredths = workingProcessorHundredths + pods * costs.wakingProcessorHundredths
        lanes = pods * demand.fleet.processorsPerPod
        partitions = CapacityPlan.ceilingQuotient(lanes * CapacityPlan.partitionsPerLane, pods) * pods
    }

    private mutating func planConnections() {
        let pushesInFlight = CapacityPlan.ceilingQuotient(pushesPerSecond * costs.roundTripMilliseconds, 1_000)
        let connectionsNeeded = CapacityPlan.ceilingQuotient(
            pushesInFlight * 100,
            costs.streamsPerConnection * CapacityPlan.streamsInUsePercent
        )
        connectionsPerPool = max(2, CapacityPlan.ceilingQuotient(connectionsNeeded, lanesWithRanges))
        connections = lanes * demand.fleet.pools * connectionsPerPool
        apnsMegabitsPerSecond = CapacityPlan.ceilingQuotient(pushesPerMinute * costs.bytesPerPush * 8, 60_000_000)
        podMebibytes = MemoryBudget.plannedMebibytes(
            lanes: Int(demand.fleet.processorsPerPod),
            connectionsMax: Int(demand.fleet.processorsPerPod * demand.fleet.pools * connectionsPerPool)
        )
    }

    /// The number of lanes that have a range of the audience. Each lane gets one range before any lane gets two.
    package var lanesWithRanges: Int64 { min(lanes, ranges) }

    private mutating func planRound() {
        // The command has reached all members when the lane with the most ranges has finished their rounds.
        let busiestLaneMembers = CapacityPlan.ceilingQuotient(
            demand.members * CapacityPlan.ceilingQuotient(ranges, lanesWithRanges),
            ranges
        )
        let workingMilliseconds = CapacityPlan.ceilingQuotient(
            busiestLaneMembers * costs.cpuNanosecondsPerMember,
            1_000_000
        )
        let streams = connectionsPerPool * costs.streamsPerConnection
        let streamMilliseconds = CapacityPlan.ceilingQuotient(busiestLaneMembers * costs.roundTripMilliseconds, streams)
        deliveryMilliseconds =
            max(workingMilliseconds, streamMilliseconds) + costs.roundTripMilliseconds
            + costs.firstFanoutPushMilliseconds
    }

    private mutating func planRedis() {
        membersMebibytes = redisMebibytes(keyBytes: demand.members * costs.redisBytesPerMember)
        activitiesMebibytes = redisMebibytes(keyBytes: demand.activities * costs.redisBytesPerActivity)
        redisProcessorPercent = CapacityPlan.ceilingQuotient(
            pushesPerMinute * costs.redisCPUNanosecondsPerMember,
            600_000_000
        )
        redisNodes = max(
            CapacityPlan.ceilingQuotient(redisMebibytes, demand.fleet.redisNodeGibibytes * 1_024),
            CapacityPlan.ceilingQuotient(redisProcessorPercent, CapacityPlan.redisProcessorBusyPercent)
        )
    }

    private func redisMebibytes(keyBytes: Int64) -> Int64 {
        CapacityPlan.ceilingQuotient(keyBytes / 100 * costs.redisMemoryPercentOfKeys + 1, 1_048_576)
    }
}
