/// The size of a fleet for single commands. All results are whole numbers. Counts, such as those of pods and nodes, are
/// rounded up. Rates, such as ``pushesPerSecond``, are those in the busiest minute.
package struct CapacityPlan: Sendable, Equatable {
    /// The smallest number of pods: three, so that one still works if another fails while the third is updated.
    static let podsMin: Int64 = 3
    /// Partitions for each lane. Only one lane reads a partition, and a topic's number of partitions is hard to change.
    /// Three for each lane let the fleet grow: with twice as many lanes, each lane still has at least one.
    static let partitionsPerLane: Int64 = 3
    /// The planned load of the APNs connections, in per cent of their streams. At 50 %, one of two connections can
    /// carry the pushes of both while the pool replaces the other connection.
    static let streamsInUsePercent: Int64 = 50
    /// The planned load of one Redis processor, per cent: the same as the default of `laneBusyPercentMax`.
    static let redisProcessorBusyPercent: Int64 = 50

    package let demand: CapacityDemand
    package let costs: MeasuredCosts

    package private(set) var pushesPerSecond: Int64 = 0
    package private(set) var commandsPerSecond: Int64 = 0
    /// Pushes to one activity in an hour, on average, in hundredths: 150 means one and a half. Those with priority 10
    /// must fit the budget of the activity's policy. The plan does not check this.
    package private(set) var pushesPerActivityHourHundredths: Int64 = 0

    /// Processors that are busy at the peak, in hundredths of a processor.
    package private(set) var busyProcessorHundredths: Int64 = 0
    /// The number of pods, at least ``podsMin``. At the peak, each lane is at most `laneBusyPercentMax` per cent busy,
    /// even if one pod fails.
    package private(set) var podCount: Int64 = 0
    package private(set) var laneCount: Int64 = 0
    /// The memory limit of a pod. The worker keeps its memory below this limit.
    package private(set) var podMebibytes: Int64 = 0
    package private(set) var partitionCount: Int64 = 0

    /// Pushes to which APNs has not responded yet: the push rate times the round trip (Little's law).
    package private(set) var inFlightPushCount: Int64 = 0
    /// The number of connections that the load needs. `connectionCount` may be larger, because every lane has at least
    /// two for each pool.
    package private(set) var neededConnectionCount: Int64 = 0
    package private(set) var connectionsPerPool: Int64 = 0
    package private(set) var connectionCount: Int64 = 0
    package private(set) var apnsMegabitsPerSecond: Int64 = 0

    package private(set) var redisCallsPerSecond: Int64 = 0
    package private(set) var redisMebibytes: Int64 = 0
    package private(set) var redisNodeCountForCalls: Int64 = 0
    package private(set) var redisNodeCountForMemory: Int64 = 0
    package var redisNodeCount: Int64 { max(redisNodeCountForCalls, redisNodeCountForMemory) }

    package private(set) var kafkaCommandBytesPerSecond: Int64 = 0
    package private(set) var kafkaResultBytesPerSecond: Int64 = 0
    /// Bytes that the brokers write, including the copies on replicas.
    package private(set) var kafkaWrittenBytesPerSecond: Int64 = 0
    package private(set) var kafkaStoredGibibytes: Int64 = 0

    /// Computes the plan. Throws ``CapacityError`` for the first number of the demand that is outside its range.
    package init(demand: CapacityDemand, costs: MeasuredCosts = MeasuredCosts()) throws(CapacityError) {
        try demand.validate()
        self.demand = demand
        self.costs = costs
        pushesPerSecond = Self.ceilingQuotient(demand.pushesPerMinute, 60)
        commandsPerSecond = Self.ceilingQuotient(pushesPerSecond * demand.commandsPerPushHundredths, 100)
        pushesPerActivityHourHundredths = demand.pushesPerMinute * 6_000 / demand.activityCount
        planPods()
        planConnections()
        podMebibytes = demand.fleet.computePodMebibytes(connectionsPerPool: connectionsPerPool)
        planRedis()
        planKafka()
    }

    private mutating func planPods() {
        let cpuNanosecondsPerSecond =
            commandsPerSecond * costs.cpuNanosecondsPerCommand + pushesPerSecond * costs.cpuNanosecondsPerPush
        let workingProcessorHundredths = Self.ceilingQuotient(cpuNanosecondsPerSecond, 10_000_000)
        let processorHundredthsPerPod = max(
            1,
            demand.fleet.laneBusyPercentMax * demand.fleet.processorsPerPod - costs.lowLoadProcessorHundredths
        )
        podCount = max(Self.podsMin, Self.ceilingQuotient(workingProcessorHundredths, processorHundredthsPerPod) + 1)
        busyProcessorHundredths = workingProcessorHundredths + podCount * costs.lowLoadProcessorHundredths
        laneCount = podCount * demand.fleet.processorsPerPod
        let commandBytesPerSecond = commandsPerSecond * costs.bytesPerCommand
        let neededPartitionCount = max(
            laneCount * Self.partitionsPerLane,
            Self.ceilingQuotient(commandBytesPerSecond, costs.partitionBytesPerSecond)
        )
        // A multiple of the number of pods gives every pod the same number of partitions.
        partitionCount = Self.ceilingQuotient(neededPartitionCount, podCount) * podCount
    }

    private mutating func planConnections() {
        inFlightPushCount = Self.ceilingQuotient(pushesPerSecond * costs.roundTripMilliseconds, 1_000)
        neededConnectionCount = Self.ceilingQuotient(
            inFlightPushCount * 100,
            demand.fleet.streamsPerConnection(costs) * Self.streamsInUsePercent
        )
        // Each pool has at least two connections. While the pool replaces one, the other carries the pushes.
        connectionsPerPool = max(2, Self.ceilingQuotient(neededConnectionCount, laneCount))
        connectionCount = laneCount * demand.fleet.poolCount * connectionsPerPool
        apnsMegabitsPerSecond = Self.ceilingQuotient(pushesPerSecond * costs.bytesPerPush * 8, 1_000_000)
    }

    private mutating func planRedis() {
        redisCallsPerSecond = pushesPerSecond * costs.redisCallsPerPush
        redisNodeCountForCalls = Self.ceilingQuotient(
            redisCallsPerSecond * 100,
            costs.callsPerSecondPerRedisProcessor * Self.redisProcessorBusyPercent
        )
        let keyBytes =
            demand.activityCount * costs.redisBytesPerActivity + demand.deviceCount * costs.redisBytesPerDevice
            + demand.restartedActivityCount * costs.redisBytesPerRestart
        redisMebibytes = Self.ceilingQuotient(keyBytes / 100 * costs.redisMemoryPercentOfKeys + 1, 1_048_576)
        redisNodeCountForMemory = Self.ceilingQuotient(redisMebibytes, demand.fleet.redisNodeGibibytes * 1_024)
    }

    private mutating func planKafka() {
        kafkaCommandBytesPerSecond = commandsPerSecond * costs.bytesPerCommand
        kafkaResultBytesPerSecond = commandsPerSecond * costs.bytesPerResult
        let writtenBytesPerSecond = (kafkaCommandBytesPerSecond + kafkaResultBytesPerSecond) * demand.replicationFactor
        kafkaWrittenBytesPerSecond = writtenBytesPerSecond
        // KiB a second, times hours, times 3,600 s an hour, divided by 1,048,576 KiB a GiB. The last two numbers are
        // divided by 16 (to 225 and 65,536), so that the product fits 64 bits.
        kafkaStoredGibibytes = Self.ceilingQuotient(
            Self.ceilingQuotient(writtenBytesPerSecond, 1_024) * demand.storedPeakHours * 225,
            65_536
        )
    }

    static func ceilingQuotient(_ number: Int64, _ divisor: Int64) -> Int64 { (number + divisor - 1) / divisor }
}
