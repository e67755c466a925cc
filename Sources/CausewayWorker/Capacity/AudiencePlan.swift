import Audiences
import LiveActivity

/// The size of a fleet for one audience, and how long a command takes to reach all its members. All results are whole
/// numbers, rounded up. Rates, such as ``pushesPerSecond``, are those in the busiest minute.
package struct AudiencePlan: Sendable, Equatable {
    package let demand: AudienceDemand
    package let costs: MeasuredCosts

    /// The push rate in the busiest minute, while lanes work on a command. They are idle between two commands, so the
    /// average rate is lower. For example, with four commands a minute and a `fleet.laneBusyPercentMax` of 50, the
    /// lanes work for 7.5 of every 15 s, and the average is half of this rate.
    package private(set) var pushesPerSecond: Int64 = 0
    /// Processors that are busy at the peak, in hundredths of a processor.
    package private(set) var busyProcessorHundredths: Int64 = 0
    package private(set) var podCount: Int64 = 0
    package private(set) var laneCount: Int64 = 0
    package private(set) var podMebibytes: Int64 = 0
    /// The number of ranges into which the members are divided. Each range has a round of its own in one lane, so at
    /// most this many lanes can work on one command.
    package private(set) var rangeCount: Int64 = 0
    package private(set) var partitionCount: Int64 = 0

    package private(set) var connectionsPerPool: Int64 = 0
    package private(set) var connectionCount: Int64 = 0
    package private(set) var apnsMegabitsPerSecond: Int64 = 0
    /// The time from a command's record in Kafka until APNs has responded to its last push, if all pods work.
    package private(set) var deliveryMilliseconds: Int64 = 0

    /// Redis' memory for the pages, which list the audience's members.
    package private(set) var membersMebibytes: Int64 = 0
    /// Redis' memory for the values of activities. Each value has the activity's state and token.
    package private(set) var activitiesMebibytes: Int64 = 0
    package var redisMebibytes: Int64 { membersMebibytes + activitiesMebibytes }
    /// How busy the rounds keep Redis, in per cent of one processor. Above 100, the rounds need more than one
    /// processor.
    package private(set) var redisProcessorPercent: Int64 = 0
    package private(set) var redisNodeCount: Int64 = 0

    /// The number of records that one command writes to the fan-out topic: one for each range.
    package var fanoutRecordCount: Int64 { rangeCount }
    package var resultRecordCount: Int64 { rangeCount + 1 }

    /// Computes the plan. Throws ``CapacityError`` for the first number of the demand that is outside its range.
    package init(demand: AudienceDemand, costs: MeasuredCosts = MeasuredCosts()) throws(CapacityError) {
        try demand.validate()
        self.demand = demand
        self.costs = costs
        rangeCount = Int64(Audiences.rangeCount(memberCount: Double(demand.memberCount)))
        planPods()
        planConnections()
        planRound()
        planRedis()
    }

    /// The number of pushes to members in the busiest minute. Commands above 60 a minute do not count, because a member
    /// gets at most one state a second.
    private var pushesPerMinute: Int64 { demand.memberCount * min(demand.commandsPerMinute, 60) }

    private mutating func planPods() {
        pushesPerSecond = CapacityPlan.ceilingQuotient(pushesPerMinute * 100, 60 * demand.fleet.laneBusyPercentMax)
        // In a minute, one processor has 60,000,000,000 ns of CPU, and a hundredth of it has 600,000,000 ns.
        let workingProcessorHundredths = CapacityPlan.ceilingQuotient(
            pushesPerMinute * costs.cpuNanosecondsPerMember,
            600_000_000
        )
        podCount = max(
            CapacityPlan.podsMin,
            CapacityPlan.ceilingQuotient(
                workingProcessorHundredths,
                demand.fleet.processorsPerPod * demand.fleet.laneBusyPercentMax
            )
                + 1
        )
        busyProcessorHundredths = workingProcessorHundredths + podCount * costs.lowLoadProcessorHundredths
        laneCount = podCount * demand.fleet.processorsPerPod
        partitionCount = CapacityPlan.ceilingQuotient(laneCount * CapacityPlan.partitionsPerLane, podCount) * podCount
    }

    private mutating func planConnections() {
        let inFlightPushCount = CapacityPlan.ceilingQuotient(pushesPerSecond * costs.roundTripMilliseconds, 1_000)
        let neededConnectionCount = CapacityPlan.ceilingQuotient(
            inFlightPushCount * 100,
            demand.fleet.streamsPerConnection(costs) * CapacityPlan.streamsInUsePercent
        )
        connectionsPerPool = max(2, CapacityPlan.ceilingQuotient(neededConnectionCount, workingLaneCount))
        connectionCount = laneCount * demand.fleet.poolCount * connectionsPerPool
        apnsMegabitsPerSecond = CapacityPlan.ceilingQuotient(pushesPerMinute * costs.bytesPerPush * 8, 60_000_000)
        podMebibytes = demand.fleet.computePodMebibytes(connectionsPerPool: connectionsPerPool)
    }

    /// The number of lanes that work on a command, because they have a range of the audience. The plan assumes that
    /// each lane gets one range before any lane gets two.
    package var workingLaneCount: Int64 { min(laneCount, rangeCount) }

    private mutating func planRound() {
        // The lane with the most ranges finishes last. The command has then reached all members.
        let busiestLaneMemberCount = CapacityPlan.ceilingQuotient(
            demand.memberCount * CapacityPlan.ceilingQuotient(rangeCount, workingLaneCount),
            rangeCount
        )
        let workingMilliseconds = CapacityPlan.ceilingQuotient(
            busiestLaneMemberCount * costs.cpuNanosecondsPerMember,
            1_000_000
        )
        let streamCount = connectionsPerPool * demand.fleet.streamsPerConnection(costs)
        let streamMilliseconds = CapacityPlan.ceilingQuotient(
            busiestLaneMemberCount * costs.roundTripMilliseconds,
            streamCount
        )
        deliveryMilliseconds =
            max(workingMilliseconds, streamMilliseconds) + costs.roundTripMilliseconds
            + costs.firstFanoutPushMilliseconds
    }

    private mutating func planRedis() {
        membersMebibytes = computeRedisMebibytes(keyBytes: demand.memberCount * costs.redisBytesPerMember)
        activitiesMebibytes = computeRedisMebibytes(keyBytes: demand.activityCount * costs.redisBytesPerActivity)
        redisProcessorPercent = CapacityPlan.ceilingQuotient(
            pushesPerMinute * costs.redisCPUNanosecondsPerMember,
            600_000_000
        )
        redisNodeCount = max(
            CapacityPlan.ceilingQuotient(redisMebibytes, demand.fleet.redisNodeGibibytes * 1_024),
            CapacityPlan.ceilingQuotient(redisProcessorPercent, CapacityPlan.redisProcessorBusyPercent)
        )
    }

    private func computeRedisMebibytes(keyBytes: Int64) -> Int64 {
        CapacityPlan.ceilingQuotient(keyBytes / 100 * costs.redisMemoryPercentOfKeys + 1, 1_048_576)
    }
}
