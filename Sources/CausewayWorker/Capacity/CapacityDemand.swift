import Numbers
import Observability

/// The load of single commands (not to audiences). `causeway plan` sizes a fleet for this load.
package struct CapacityDemand: Sendable, Equatable {
    /// Pushes to phones in a minute, at the peak. Range: 1...6,000,000,000.
    package var pushesPerMinute: Int64
    /// Activities that have a value in Redis. Redis keeps a value for about a day after its last write. Range:
    /// 1...10,000,000,000.
    package var activityCount: Int64
    /// Commands for each push, in hundredths. Range: 100...100,000. 100 means that every command is sent. 440, as in
    /// the cricket season of `make demo`, means that one of 4.4 commands is sent, and newer commands replace the
    /// others.
    package var commandsPerPushHundredths: Int64 = 100
    /// Devices with a push-to-start token. Range: 0...10,000,000,000.
    package var deviceCount: Int64 = 0
    /// Live activities whose policy starts them again after their lifetime (`afterLifetime: restart`). For each, Redis
    /// keeps the start and the newest update. Range: 0...10,000,000,000.
    package var restartedActivityCount: Int64 = 0
    package var fleet = FleetParameters()
    /// Copies that Kafka keeps of each record. Range: 1...9.
    package var replicationFactor: Int64 = 3
    /// How long Kafka has room for commands and results at the peak load, in hours. Range: 1...8,760. The default is
    /// shorter than the topics keep their records (``TopicPlan``), because most hours are quieter than the peak.
    package var storedPeakHours: Int64 = 4

    /// The allowed range of `--commands-per-push`, in commands, not in hundredths.
    package static let commandsPerPushRange: ClosedRange<Int64> = 1...1_000

    package init(pushesPerMinute: Int64, activityCount: Int64) {
        self.pushesPerMinute = pushesPerMinute
        self.activityCount = activityCount
    }

    /// Checks all numbers. Throws ``CapacityError`` for the first number outside its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("updates-per-minute", pushesPerMinute, in: 1...6_000_000_000)
        try CapacityError.require("activities", activityCount, in: 1...10_000_000_000)
        let allowedHundredths = Self.commandsPerPushRange.lowerBound * 100...Self.commandsPerPushRange.upperBound * 100
        try CapacityError.require("commands-per-push", commandsPerPushHundredths, in: allowedHundredths, divisor: 100)
        try CapacityError.require("devices", deviceCount, in: 0...10_000_000_000)
        try CapacityError.require("restarted-activities", restartedActivityCount, in: 0...10_000_000_000)
        try fleet.validate()
        try CapacityError.require("replication", replicationFactor, in: 1...9)
        try CapacityError.require("retention-hours", storedPeakHours, in: 1...8_760)
    }
}

/// The reason why there is no plan.
package struct CapacityError: Error, Equatable, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }

    /// Throws an error that names the field, unless the value is in the range.
    ///
    /// - Parameter divisor: the number by which the message divides the value and the range. For example, 440
    ///   hundredths with the divisor 100 are shown as 4.4.
    static func require(
        _ field: String,
        _ value: Int64,
        in range: ClosedRange<Int64>,
        divisor: Int64 = 1
    ) throws(CapacityError) {
        guard !range.contains(value) else { return }
        let texts = [value, range.lowerBound, range.upperBound].map { Numeral.exactQuotient($0, divisor: divisor) }
        throw CapacityError(reason: "\(field): is \(texts[0]), must be \(texts[1]) to \(texts[2])")
    }
}
