/// What the user chooses for a planned fleet, such as the number of processors of a pod.
package struct FleetParameters: Sendable, Equatable {
    /// Number of pairs of an app and an environment. Each pair has a pool of connections in every lane. Range: 1...510,
    /// because a configuration has at most 255 apps, each with two environments.
    package var poolCount: Int64 = 1
    /// The most apps that may have these pools: one for each pool, but no more than a configuration may have.
    var appCountMax: Int { Int(min(255, poolCount)) }
    /// Processors of a pod. A pod has one lane for each processor. Range: 1...256, because a worker has at most 256
    /// lanes.
    package var processorsPerPod: Int64 = 4
    /// How busy a lane may be at the peak, per cent. Range: 10...90. The rest of the time is for bursts, for the load
    /// of a failed pod, and for a backlog. For an audience, the rounds of one command may take at most this percentage
    /// of the time until the next command.
    package var laneBusyPercentMax: Int64 = 50
    /// Memory of one Redis node for keys, GiB. Range: 1...4,096.
    package var redisNodeGibibytes: Int64 = 8

    package init() {}

    /// - Throws: ``CapacityError`` that names the first number outside its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("pools", poolCount, in: 1...510)
        try CapacityError.require("cores-per-pod", processorsPerPod, in: 1...256)
        try CapacityError.require("busy-percent", laneBusyPercentMax, in: 10...90)
        try CapacityError.require("redis-node-gibibytes", redisNodeGibibytes, in: 1...4_096)
    }
}
