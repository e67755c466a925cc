import ArgumentParser
import CausewayCommandLine

/// `causeway-lab outage-hour`: makes one app's APNs host unreachable for an hour and checks that the other app is not
/// affected.
struct OutageHourCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outage-hour",
        abstract: "Stop one app's APNs host for an hour, at full rate, and measure the effect on another app.",
        discussion: """
            This command starts a broker, a redis-server, two services of APNs with phones, and one worker with two \
            lanes. Two apps share all partitions. The host of one app stops responding, while commands for it \
            continue. Each minute a line shows the freshness of the other app's pushes, the longest wait of a record \
            for its commit, and the worker's resident memory. When the host responds again, each activity must get \
            exactly one push, with its newest state.

            Example:
              causeway-lab outage-hour --minutes 5 --rate 500

            Exit codes: 0 all expectations met; 1 an expectation not met, or a process failed; 64 the command line is \
            wrong.
            """
    )

    @Option(help: "Minutes for which the host does not respond, 1 to 1440.")
    var minutes = 60

    @Option(help: "Commands per second for each of the two apps, 10 to 20000.")
    var rate = 2_000

    @Option(help: "Activities of each of the two apps, 10 to 100000.")
    var activities = 4_000

    @Option(name: .customLong("table"), help: ArgumentHelp("Also write the lines to this file.", valueName: "file"))
    var tableFile: String?

    @Flag(help: "Keep the directory with logs, configuration and pushes, and print its path.")
    var keep = false

    func validate() throws {
        guard (1...1_440).contains(minutes) else { throw ValidationError("--minutes must be 1 to 1440") }
        guard (10...20_000).contains(rate) else { throw ValidationError("--rate must be 10 to 20000") }
        guard (10...100_000).contains(activities) else { throw ValidationError("--activities must be 10 to 100000") }
    }

    func run() throws {
        let schedule = OutageHourSchedule(
            outageMinutes: minutes,
            activityCount: activities,
            commandsPerSecondPerApp: rate
        )
        let interruption = Interruption()
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: keep) }
        let deployment = try OutageDeployment(
            schedule.outage,
            directory: directory.path,
            programs: try ProgramPaths(),
            rebalancingBrokerCommand: nil
        )
        defer { deployment.stop() }
        try deployment.start()
        let brokenPromises = try OutageHourRun(
            schedule,
            on: deployment,
            interruption: interruption,
            tableFile: tableFile
        )
        .run()
        for finding in brokenPromises { StandardStreams.printOutput("BROKEN \(finding)") }
        guard brokenPromises.isEmpty else { throw ExitCode(1) }
        StandardStreams.printOutput("ok: the other app was not affected")
    }
}
