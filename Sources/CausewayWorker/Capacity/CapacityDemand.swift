import Numbers
import Observability

/// What a fleet is planned for.
package struct CapacityDemand: Sendable, Equatable {
    /// Pushes to phones at the peak, a minute. 1...6,000,000,000.
    package var updatesPerMinute: Int64
    /// Live Activities that are alive, or ended less than a day ago: each has its value in Redis. 1...10,000,000,000.
    package var activities: Int64
    /// Hundredths of commands that are written for one push: 100 means that each is sent, 440 is the cricket season's. 100...100,000.
    package var commandsPerPushHundredths: Int64 = 100
    /// Devices with a push-to-start token. 0...10,000,000,000.
    package var devices: Int64 = 0
    /// Environments and apps: each pair is a pool of connections in every lane. 1...510.
    package var pools: Int64 = 1
    /// Cores, and lanes, of a pod. 1...256.
    package var coresPerPod: Int64 = 4
    /// How busy a lane may be at the peak, per cent; the rest is for bursts, for a lost pod, and for catching up. 10...90.
    package var busyPercent: Int64 = 50
    /// Copies that Kafka keeps of each record. 1...9.
    package var replication: Int64 = 3
    /// How much Kafka keeps of commands and results: as many hours at the peak's rate. 1...8,760.
    package var retentionHours: Int64 = 4
    /// Memory of a Redis node that keys may fill. 1...4,096.
    package var redisNodeGibibytes: Int64 = 8

    package init(updatesPerMinute: Int64, activities: Int64) {
        self.updatesPerMinute = updatesPerMinute
        self.activities = activities
    }

    /// - Throws: ``CapacityError`` naming the first number that is out of its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("updates-per-minute", updatesPerMinute, in: 1...6_000_000_000)
        try CapacityError.require("activities", activities, in: 1...10_000_000_000)
        try CapacityError.require("commands-per-push", commandsPerPushHundredths, in: 100...100_000, divisor: 100)
        try CapacityError.require("devices", devices, in: 0...10_000_000_000)
        try CapacityError.require("pools", pools, in: 1...510)
        try CapacityError.require("cores-per-pod", coresPerPod, in: 1...256)
        try CapacityError.require("busy-percent", busyPercent, in: 10...90)
        try CapacityError.require("replication", replication, in: 1...9)
        try CapacityError.require("retention-hours", retentionHours, in: 1...8_760)
        try CapacityError.require("redis-node-gibibytes", redisNodeGibibytes, in: 1...4_096)
    }

}

/// Why nothing can be planned.
package struct CapacityError: Error, Equatable, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }

    /// - Parameter divisor: how many of the stored unit make one of what people wrote.
    static func require(
        _ field: String,
        _ value: Int64,
        in range: ClosedRange<Int64>,
        divisor: Int64 = 1
    ) throws(CapacityError) {
        guard !range.contains(value) else { return }
        let texts = [value, range.lowerBound, range.upperBound].map { Numeral.exact($0, divisor: divisor) }
        throw CapacityError(reason: "\(field): is \(texts[0]), must be \(texts[1]) to \(texts[2])")
    }
}
