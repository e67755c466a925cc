/// What a planned fleet is made of.
package struct FleetParts: Sendable, Equatable {
    /// Number of pairs of an app and an environment. Each pair has a pool of connections in every lane. 1...510.
    package var pools: Int64 = 1
    /// Cores of a pod, which are also its lanes. 1...256.
    package var coresPerPod: Int64 = 4
    /// How busy a lane may be at the peak, per cent. The rest is for bursts, for a lost pod, and for a backlog. For an audience, this is also
    /// the part of the time between two commands that a round may take. 10...90.
    package var busyPercent: Int64 = 50
    /// Memory of one Redis node for keys, GiB. 1...4,096.
    package var redisNodeGibibytes: Int64 = 8

    package init() {}

    /// - Throws: ``CapacityError`` that names the first number outside its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("pools", pools, in: 1...510)
        try CapacityError.require("cores-per-pod", coresPerPod, in: 1...256)
        try CapacityError.require("busy-percent", busyPercent, in: 10...90)
        try CapacityError.require("redis-node-gibibytes", redisNodeGibibytes, in: 1...4_096)
    }
}
