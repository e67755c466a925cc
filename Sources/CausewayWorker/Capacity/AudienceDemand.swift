/// An audience for which a fleet is planned.
package struct AudienceDemand: Sendable, Equatable {
    /// Members at the peak. 1...1,000,000,000.
    package var members: Int64
    /// Commands to the audience in the busiest minute. Each goes to every member. 1...6,000.
    package var updatesPerMinute: Int64
    /// Activities that are alive or ended less than a day ago: each has a value in Redis. `members`...10,000,000,000.
    package var activities: Int64
    /// Number of pairs of an app and an environment. Each pair has a pool of connections in every lane. 1...510.
    package var pools: Int64 = 1
    /// Cores of a pod, which are also its lanes. 1...256.
    package var coresPerPod: Int64 = 4
    /// How busy the lanes may be at the peak, per cent. This is also the part of the time between two commands that a round may take.
    /// 10...90.
    package var busyPercent: Int64 = 50
    /// Memory of one Redis node for keys, GiB. 1...4,096.
    package var redisNodeGibibytes: Int64 = 8

    package init(members: Int64, updatesPerMinute: Int64) {
        self.members = members
        self.updatesPerMinute = updatesPerMinute
        activities = members
    }

    /// - Throws: ``CapacityError`` that names the first number outside its range.
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
