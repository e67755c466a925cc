import ArgumentParser
import CausewayWorker

/// `causeway plan`: prints how many pods, partitions, connections and Redis nodes a given load needs.
struct PlanCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Print how many pods, partitions, connections and Redis nodes a load needs.",
        discussion: """
            Prints the plan and the measured costs on which it is based. All numbers are for the peak.
            With --audience-members it plans for one audience: the duration of a round, and what the round needs.

            Examples:
              causeway plan --updates-per-minute 600000 --activities 2000000
              causeway plan --updates-per-minute 9000000 --activities 9000000 --commands-per-push 4.4
              causeway plan --audience-members 1000000 --updates-per-minute 4

            Exit codes: 0 success; 64 the command line is wrong.
            """
    )

    @Option(
        help: ArgumentHelp(
            "Pushes to phones in the busiest minute; with --audience-members, commands to the audience in that minute.",
            valueName: "count"
        )
    )
    var updatesPerMinute: Int64

    @Option(
        help: ArgumentHelp(
            """
            Live Activities per day: Redis keeps each for about a day. Default for an audience: the number of its \
            members.
            """,
            valueName: "count"
        )
    )
    var activities: Int64?

    @Option(help: ArgumentHelp("Members of an audience that each command reaches.", valueName: "count"))
    var audienceMembers: Int64?

    @Option(help: ArgumentHelp("Commands for each push, rounded to hundredths.", valueName: "number"))
    var commandsPerPush: Double = 1

    @Option(help: ArgumentHelp("Devices on which activities can be started by push.", valueName: "count"))
    var devices: Int64 = 0

    @Option(
        help: ArgumentHelp(
            """
            Activities at the same time whose policy has afterLifetime: restart: Redis keeps the start and the last \
            update of each.
            """,
            valueName: "count"
        )
    )
    var restartedActivities: Int64 = 0

    @Option(
        help: ArgumentHelp(
            """
            Number of pairs of an app and an environment. A pair counts twice if apns.production or apns.sandbox of the \
            configuration has a broadcastHost or broadcastPort for its environment. The plan does not read the \
            configuration.
            """,
            valueName: "count"
        )
    )
    var pools = FleetParameters().poolCount

    @Option(
        help: ArgumentHelp(
            "apns.inFlightPerConnection of the configuration: the most pushes in flight on one connection.",
            valueName: "count"
        )
    )
    var inFlightPerConnection = FleetParameters().inFlightPushesPerConnectionMax

    @Option(help: ArgumentHelp("Cores of each pod.", valueName: "count"))
    var coresPerPod = FleetParameters().processorsPerPod

    @Option(help: ArgumentHelp("How busy lanes may be at the peak, in percent.", valueName: "percent"))
    var busyPercent = FleetParameters().laneBusyPercentMax

    @Option(help: ArgumentHelp("Copies that Kafka keeps of each record.", valueName: "count"))
    var replication: Int64 = 3

    @Option(
        help: ArgumentHelp(
            "How many hours of records at the peak's rate Kafka has room for; the topics' retention may be longer.",
            valueName: "hours"
        )
    )
    var retentionHours: Int64 = 4

    @Option(help: ArgumentHelp("Memory of a Redis node for keys.", valueName: "GiB"))
    var redisNodeGibibytes = FleetParameters().redisNodeGibibytes

    func validate() throws {
        do {
            _ = try planText()
        } catch let error as CapacityError {
            throw ValidationError("--\(error)")
        }
    }

    func run() throws { print(try planText(), terminator: "") }

    private func planText() throws -> String {
        if let audienceMembers { return try AudiencePlan(demand: demand(ofAudience: audienceMembers)).text }
        guard let activities else {
            throw ValidationError("Missing expected argument '--activities <count>', or '--audience-members <count>'")
        }
        return try CapacityPlan(demand: demand(activityCount: activities)).text
    }

    private var fleet: FleetParameters {
        var fleet = FleetParameters()
        fleet.poolCount = pools
        fleet.processorsPerPod = coresPerPod
        fleet.laneBusyPercentMax = busyPercent
        fleet.redisNodeGibibytes = redisNodeGibibytes
        fleet.inFlightPushesPerConnectionMax = inFlightPerConnection
        return fleet
    }

    private func demand(activityCount: Int64) throws -> CapacityDemand {
        var demand = CapacityDemand(pushesPerMinute: updatesPerMinute, activityCount: activityCount)
        guard let commandsPerPushHundredths = Int64(exactly: (commandsPerPush * 100).rounded()) else {
            let range = CapacityDemand.commandsPerPushRange
            throw ValidationError(
                "--commands-per-push: is \(commandsPerPush), must be \(range.lowerBound) to \(range.upperBound)"
            )
        }
        demand.commandsPerPushHundredths = commandsPerPushHundredths
        demand.deviceCount = devices
        demand.restartedActivityCount = restartedActivities
        demand.fleet = fleet
        demand.replicationFactor = replication
        demand.storedPeakHours = retentionHours
        return demand
    }

    private func demand(ofAudience memberCount: Int64) throws -> AudienceDemand {
        let defaults = CapacityDemand(pushesPerMinute: 1, activityCount: 1)
        let hasSingleCommandOptions =
            commandsPerPush != 1 || devices != defaults.deviceCount || replication != defaults.replicationFactor
            || retentionHours != defaults.storedPeakHours || restartedActivities != defaults.restartedActivityCount
        guard !hasSingleCommandOptions else {
            throw ValidationError(
                """
                --commands-per-push, --devices, --restarted-activities, --replication and --retention-hours cannot be \
                used with --audience-members
                """
            )
        }
        var demand = AudienceDemand(memberCount: memberCount, commandsPerMinute: updatesPerMinute)
        if let activities { demand.activityCount = activities }
        demand.fleet = fleet
        return demand
    }
}
