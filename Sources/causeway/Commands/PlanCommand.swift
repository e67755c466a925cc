import ArgumentParser
import CausewayWorker
import Observability

/// `causeway plan`: how large a fleet must be.
struct PlanCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Say how many pods, partitions, connections and Redis nodes a load takes.",
        discussion: """
            Prints the plan, and the measured costs that it rests on. Numbers are for the peak.

            Examples:
              causeway plan --updates-per-minute 600000 --activities 2000000
              causeway plan --updates-per-minute 9000000 --activities 9000000 --commands-per-push 4.4

            Exit codes: 0 it was printed; 64 the command line is wrong.
            """
    )

    @Option(help: ArgumentHelp("Pushes to phones in the busiest minute.", valueName: "count"))
    var updatesPerMinute: Int64

    @Option(help: ArgumentHelp("Live Activities in a day: each is remembered for that long.", valueName: "count"))
    var activities: Int64

    @Option(help: ArgumentHelp("Activities that one command reaches.", valueName: "count"))
    var audience: Int64 = 1

    @Option(help: ArgumentHelp("Commands that are written for one push.", valueName: "number"))
    var commandsPerPush: Double = 1

    @Option(help: ArgumentHelp("Devices that activities can be started on.", valueName: "count"))
    var devices: Int64 = 0

    @Option(help: ArgumentHelp("Apps times their environments.", valueName: "count"))
    var pools: Int64 = 1

    @Option(help: ArgumentHelp("Cores of a pod.", valueName: "count"))
    var coresPerPod: Int64 = 4

    @Option(help: ArgumentHelp("How busy lanes may be at the peak, per cent.", valueName: "percent"))
    var busyPercent: Int64 = 50

    @Option(help: ArgumentHelp("Copies that Kafka keeps.", valueName: "count"))
    var replication: Int64 = 3

    @Option(help: ArgumentHelp("What Kafka keeps, in hours at the peak's rate.", valueName: "hours"))
    var retentionHours: Int64 = 4

    @Option(help: ArgumentHelp("Memory of a Redis node that keys may fill.", valueName: "GiB"))
    var redisNodeGibibytes: Int64 = 8

    func validate() throws {
        do {
            _ = try CapacityPlan(demand: demand)
        } catch {
            throw ValidationError("--\(error)")
        }
    }

    func run() throws {
        print(try CapacityPlan(demand: demand).text, terminator: "")
    }

    private var demand: CapacityDemand {
        var demand = CapacityDemand(updatesPerMinute: updatesPerMinute, activities: activities)
        demand.audience = audience
        // What no number of hundredths is becomes one that is out of range, and is refused by name.
        demand.commandsPerPushHundredths = Int64(exactly: (commandsPerPush * 100).rounded()) ?? 0
        demand.devices = devices
        demand.pools = pools
        demand.coresPerPod = coresPerPod
        demand.busyPercent = busyPercent
        demand.replication = replication
        demand.retentionHours = retentionHours
        demand.redisNodeGibibytes = redisNodeGibibytes
        return demand
    }
}

/// `causeway metrics-page`: for developers of Causeway.
struct MetricsPageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics-page",
        abstract: "Print Helm/causeway/METRICS.md.",
        shouldDisplay: false
    )

    func run() { print(MetricPage.markdown, terminator: "") }
}

/// `causeway capacity-page`: for developers of Causeway.
struct CapacityPageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capacity-page",
        abstract: "Print Helm/causeway/CAPACITY.md.",
        shouldDisplay: false
    )

    func run() throws { print(try CapacityPage.markdown(), terminator: "") }
}
