/// The times and the load of the outage hour, and the limits that the worker must keep.
struct OutageHourSchedule {
    static let affectedAppName = "affected"
    static let healthyAppName = "healthy"

    /// The minutes before the outage, which the table shows for comparison.
    var beforeOutageMinutes = 3
    var outageMinutes = 60
    /// How many minutes the run lasts after the affected app's APNs host is reachable again.
    var afterHostReturnMinutes = 2
    /// Activities of each of the two apps.
    var activityCount = 4_000
    /// Commands a second of each of the two apps.
    var commandsPerSecondPerApp = 2_000

    /// How long a record may wait for its commit. With the defaults of `worker.deferAfterMilliseconds` and
    /// `worker.deferredDelayMilliseconds`, no record waits longer.
    var commitWaitMillisecondsMax: Int64 = 60_000
    /// The time that 99 of 100 pushes of the healthy app may take in each minute of the outage. It is long, because the
    /// machine may have other load.
    var freshnessP99MillisecondsMax: Int64 = 2_500
    /// How much more resident memory, in per cent, the second half of the outage may need than the first half. The
    /// memory for waiting commands must not keep growing. (R4)
    var memoryGrowthPercentMax: Int64 = 5

    var outageBeginsAtMilliseconds: Int64 { Int64(beforeOutageMinutes) * 60_000 }
    var outageEndMilliseconds: Int64 { outageBeginsAtMilliseconds + Int64(outageMinutes) * 60_000 }
    var endMilliseconds: Int64 { outageEndMilliseconds + Int64(afterHostReturnMinutes) * 60_000 }

    /// The time between the affected app's last command and its host's return. The pause makes clear which state is the
    /// newest.
    static let pauseBeforeHostReturnsMilliseconds: Int64 = 5_000

    var outage: OutageCase {
        let intervalMilliseconds = Int64(activityCount) * 1_000 / Int64(commandsPerSecondPerApp)
        let affectedApp = OutageApp(
            name: Self.affectedAppName,
            environment: .production,
            activityCount: activityCount,
            commandIntervalMilliseconds: intervalMilliseconds,
            durationMilliseconds: outageEndMilliseconds - Self.pauseBeforeHostReturnsMilliseconds,
            endEveryNthActivity: 0
        )
        var healthyApp = affectedApp
        healthyApp.name = Self.healthyAppName
        healthyApp.environment = .sandbox
        healthyApp.durationMilliseconds = endMilliseconds
        return OutageCase(
            name: "outage-hour",
            summary:
                "The host of one app does not respond, not even to new connections; a healthy app shares its "
                + "partitions",
            apps: [affectedApp, healthyApp],
            partitionCount: 16,
            steps: [
                OutageStep(at: outageBeginsAtMilliseconds, .freeze(.simulator(.production))),
                OutageStep(at: outageEndMilliseconds, .thaw(.simulator(.production))),
            ]
        )
    }

    func isHostUnreachable(at elapsedMilliseconds: Int64) -> Bool {
        (outageBeginsAtMilliseconds..<outageEndMilliseconds).contains(elapsedMilliseconds)
    }
}
