/// The load of one audience. `causeway plan` sizes a fleet for this load.
package struct AudienceDemand: Sendable, Equatable {
    /// The number of members at the peak. Range: 1...1,000,000,000.
    package var memberCount: Int64
    /// Commands to the audience in the busiest minute. Each is for all members. Range: 1...6,000.
    package var commandsPerMinute: Int64
    /// Activities that have a value in Redis. Redis keeps a value for about a day after its last write. Range:
    /// `memberCount`...10,000,000,000.
    package var activityCount: Int64
    package var fleet = FleetParameters()

    package init(memberCount: Int64, commandsPerMinute: Int64) {
        self.memberCount = memberCount
        self.commandsPerMinute = commandsPerMinute
        activityCount = memberCount
    }

    /// Checks all numbers. Throws ``CapacityError`` for the first number outside its range.
    func validate() throws(CapacityError) {
        try CapacityError.require("audience-members", memberCount, in: 1...1_000_000_000)
        try CapacityError.require("updates-per-minute", commandsPerMinute, in: 1...6_000)
        try CapacityError.require("activities", activityCount, in: memberCount...10_000_000_000)
        try fleet.validate()
    }
}
