/// What the user chooses for a planned fleet, such as the number of processors of a pod.
package struct FleetParameters: Sendable, Equatable {
    /// The number of APNs pools in each lane: one for each app and environment, and a second one if broadcasts have
    /// another host or port. Range: 1...1,020, because a configuration has at most 255 apps with two environments each.
    package var poolCount: Int64 = 1
    /// The largest number of apps that can have `poolCount` pools: one app for each pool, and at most 255.
    var appsMax: Int { Int(min(255, poolCount)) }
    /// Processors of a pod. A pod has one lane for each processor. Range: 1...256, because a worker has at most 256
    /// lanes.
    package var processorsPerPod: Int64 = 4
    /// How busy a lane may be at the peak, per cent. Range: 10...90. The rest of the time is for bursts, for the load
    /// of a failed pod, and for a backlog. For an audience, the rounds of one command may take at most this percentage
    /// of the time until the next command.
    package var laneBusyPercentMax: Int64 = 50
    /// Memory of one Redis node for keys, GiB. Range: 1...4,096.
    package var redisNodeGibibytes: Int64 = 8
    /// How many pushes a connection may have in flight (`apns.inFlightPerConnection`). Range: 1...4,096. A connection
    /// needs memory for each of them, even while fewer are in flight.
    package var inFlightPushesPerConnectionMax: Int64 = FleetParameters.defaultInFlightPushesPerConnectionMax
    static let defaultInFlightPushesPerConnectionMax = Int64(MemoryBudget.defaultInFlightPerConnection)

    package init() {}

    /// How many pushes a connection can have in flight: ``inFlightPushesPerConnectionMax``, but no more than APNs
    /// allows (`costs.streamsPerConnection`).
    func streamsPerConnection(_ costs: MeasuredCosts) -> Int64 {
        min(costs.streamsPerConnection, inFlightPushesPerConnectionMax)
    }

    /// Returns the least memory limit that a pod needs if each lane has this many connections for each pool.
    func computePodMebibytes(connectionsPerPool: Int64) -> Int64 {
        MemoryBudget.computePlannedMebibytes(
            laneCount: Int(processorsPerPod),
            connectionsMax: Int(processorsPerPod * poolCount * connectionsPerPool),
            appCount: appsMax,
            inFlightPerConnection: Int(inFlightPushesPerConnectionMax)
        )
    }

    /// Checks all numbers. Throws ``CapacityError`` for the first number outside its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("pools", poolCount, in: 1...1_020)
        try CapacityError.require("cores-per-pod", processorsPerPod, in: 1...256)
        try CapacityError.require("busy-percent", laneBusyPercentMax, in: 10...90)
        try CapacityError.require("redis-node-gibibytes", redisNodeGibibytes, in: 1...4_096)
        try CapacityError.require("in-flight-per-connection", inFlightPushesPerConnectionMax, in: 1...4_096)
    }
}
