import ArgumentParser
import CausewayCommandLine

/// `causeway-lab outage-hour`: one app's host is away for an hour, and nobody else may notice.
struct OutageHourCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outage-hour",
        abstract: "Take one app's APNs host away for an hour, at full rate, and watch what that costs the others.",
        discussion: """
            A broker, a redis-server, two services of APNs with phones, and one worker with two lanes. Two apps share all partitions. The \
            host of one answers nothing, connections neither, while commands for it go on. A line a minute says how fresh the other \
            app's pushes were, how long records waited for their commit, and how much memory the worker had resident. When the \
            host returns, each activity must get one push, the newest.

            Exit codes: 0 all promises were kept; 1 one was not, or a part failed; 64 the command line is wrong.
            """
    )

    @Option(help: "For how long the host is away, 1 to 1440.")
    var minutes = 60

    @Option(help: "Commands a second for each of the two apps, 10 to 20000.")
    var rate = 2_000

    @Option(help: "Activities of each of the two apps, 10 to 100000.")
    var activities = 4_000

    @Option(help: ArgumentHelp("Write the lines to this file as well.", valueName: "file"))
    var table: String?

    @Flag(help: "Keep the directory with logs, configuration and pushes, and say where it is.")
    var keep = false

    func validate() throws {
        guard (1...1_440).contains(minutes) else { throw ValidationError("--minutes must be 1 to 1440") }
        guard (10...20_000).contains(rate) else { throw ValidationError("--rate must be 10 to 20000") }
        guard (10...100_000).contains(activities) else { throw ValidationError("--activities must be 10 to 100000") }
    }

    func run() throws {
        let plan = OutageHourPlan(awayMinutes: minutes, activities: activities, commandsPerSecond: rate)
        let interruption = Interruption()
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: keep) }
        let stage = try OutageStage(
            plan.outage,
            directory: directory.path,
            programs: try ProgramFiles(),
            rebalancingBroker: nil
        )
        defer { stage.end() }
        try stage.start()
        let broken = try OutageHourRun(plan, on: stage, interruption: interruption, tableFile: table).run()
        for finding in broken { StandardStreams.printOutput("BROKEN \(finding)") }
        guard broken.isEmpty else { throw ExitCode(1) }
        StandardStreams.printOutput("ok: nobody noticed")
    }
}
