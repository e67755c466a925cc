/// The times of the outage hour, its load, and the limits that the worker must keep.
struct OutageHourSchedule {
    static let affectedAppName = "affected"
    static let healthyAppName = "healthy"

    /// The minutes before the outage. The table shows them, so that a reader can compare the outage with
    /// them.
    var minutesBeforeOutage = 3
    var awayMinutes = 60
    /// The minutes after the return of the affected app's APNs host.
    var minutesAfterReturn = 2
    /// Activities of each of the two apps.
    var activities = 4_000
    /// Commands a second of each of the two apps.
    var commandsPerSecond = 2_000

    /// How long a record of any partition may wait for its commit.
    var commitMillisecondsMax: Int64 = 60_000
    /// The time that 99 of 100 pushes of the healthy app may take in any minute. It is long, because the
    /// machine may have other load.
    var freshnessMillisecondsMax: Int64 = 2_500
    /// How much more resident memory the second half of the outage may need than the first half, per cent.
    var growthPercentMax: Int64 = 5

    var awayFromMilliseconds: Int64 { Int64(minutesBeforeOutage) * 60_000 }
    var awayUntilMilliseconds: Int64 { awayFromMilliseconds + Int64(awayMinutes) * 60_000 }
    var endMilliseconds: Int64 { awayUntilMilliseconds + Int64(minutesAfterReturn) * 60_000 }

    /// The time between the affected app's last command and the return of its host. With this pause, it is
    /// clear which state of each activity is the newest.
    static let silenceMilliseconds: Int64 = 5_000

    var outage: OutageCase {
        let period = Int64(activities) * 1_000 / Int64(commandsPerSecond)
        let affected = OutageApp(
            name: Self.affectedAppName,
            service: .production,
            activities: activities,
            periodMilliseconds: period,
            durationMilliseconds: awayUntilMilliseconds - Self.silenceMilliseconds,
            activitiesPerEnd: 0
        )
        var healthy = affected
        healthy.name = Self.healthyAppName
        healthy.service = .sandbox
        healthy.durationMilliseconds = endMilliseconds
        return OutageCase(
            name: "outage-hour",
            summary: "The host of one app answers nothing, connections neither; a healthy app shares its partitions",
            apps: [affected, healthy],
            partitions: 16,
            steps: [
                OutageStep(at: awayFromMilliseconds, .freeze(.service(.production))),
                OutageStep(at: awayUntilMilliseconds, .thaw(.service(.production))),
            ]
        )
    }

    func isHostUnreachable(at elapsedMilliseconds: Int64) -> Bool {
        (awayFromMilliseconds..<awayUntilMilliseconds).contains(elapsedMilliseconds)
    }
}
