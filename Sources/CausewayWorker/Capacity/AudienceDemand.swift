/// An audience that a fleet is planned for.
package struct AudienceDemand: Sendable, Equatable {
    /// Members at the peak. 1...1,000,000,000.
    package var members: Int64
    /// Commands to the audience in the busiest minute: each goes to every member. 1...6,000.
    package var updatesPerMinute: Int64
    /// Activities that are alive, or ended less than a day ago: each has its value in Redis. `members`...10,000,000,000.
    package var activities: Int64
    /// Environments and apps: each pair is a pool of connections in every lane. 1...510.
    package var pools: Int64 = 1
    /// Cores, and lanes, of a pod. 1...256.
    package var coresPerPod: Int64 = 4
    /// How busy the lanes may be at the peak, per cent: also, for how much of the time between two commands a round may last. 10...90.
    package var busyPercent: Int64 = 50
    /// Memory of a Redis node that keys may fill. 1...4,096.
    package var redisNodeGibibytes: Int64 = 8

    package init(members: Int64, updatesPerMinute: Int64) {
        self.members = members
        self.updatesPerMinute = updatesPerMinute
        activities = members
    }

    /// - Throws: ``CapacityError`` naming the first number that is out of its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("audience-members", members, in: 1...1_000_000_000)
        try CapacityError.require("updates-per-minute", updatesPerMinute, in: 1...6_000)
        try CapacityError.require("activities", activities, in: members...10_000_000_000)
        try CapacityError.require("pools", pools, in: 1...510)
        try CapacityError.require("cores-per-pod", coresPerPod, in: 1...256)
        try CapacityError.require("busy-percent", busyPercent, in: 10...90)
        try CapacityError.require("redis-node-gibibytes", redisNodeGibibytes, in: 1...4_096)
    }
}
