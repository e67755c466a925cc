import ArgumentParser
import CausewayCommandLine
import Foundation

/// `causeway-lab fanout`: measures one or two commands to a large audience: all followers of a match.
struct FanoutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout",
        abstract: "Send one command to an audience, measure its cost, and check every phone.",
        discussion: """
            This command starts a broker, a redis-server, APNs with compact phones and one or more workers. Each is a \
            separate process on loopback, and APNs uses TLS. The phones join the audience by registrations on the \
            registrations topic. Then one command goes to all of them. With --overtake-at a newer command follows when \
            that part of them has been reached. In the same run h2load sends pushes to the same APNs.

            The figures: seconds from the last command's record to the last phone that shows it; pushes that APNs \
            accepted; CPU time for each push, of the worker, of redis-server and of h2load; memory of a member in \
            Redis; the peak of the worker's resident memory since the command (worker.memoryMebibytes is 64 for each \
            lane, and at least 128); result records; with --beside the freshness of single commands to other phones, \
            from the record to APNs' response, before and during the round; phones that do not show the newest state \
            (wrong), showed an older state after a newer one (reversed), or got an alert twice.

            Examples:
              causeway-lab fanout --members 1000000
              causeway-lab fanout --members 1000000 --overtake-at 50 --json fanout.json
              causeway-lab fanout --members 1000000 --beside 500

            Exit codes: 0 every phone shows the newest state, none went back or got an alert twice, and the results \
            add up; 1 otherwise, or a process failed; 64 the command line is wrong.
            """
    )

    @Option(help: "Members of the audience.")
    var members = 100_000

    @Option(
        help: ArgumentHelp(
            "Send a newer command when the first has reached this percentage of the members, 1 to 99.",
            valueName: "percent"
        )
    )
    var overtakeAt: Int?

    @Option(help: "Workers of one group, 1 to 8. More than one needs --broker.")
    var workers = 1

    @Option(help: "Threads of each worker; 0: one for each core.")
    var lanes = 0

    @Option(help: "Pushes that h2load sends before the command, and again after it; 0: none.")
    var h2loadPushes = 100_000

    @Option(
        name: .customLong("beside"),
        help: "Single commands per second to other phones, before and during the round; 0: none."
    )
    var singleCommandsPerSecond = 0

    @Option(
        name: .customLong("broker"),
        help: ArgumentHelp(
            """
            Serves a broker whose groups rebalance: a program, its arguments, then a directory for it. It must print \
            its address like causeway-lab broker. Default: the embedded broker, whose groups have one member.
            """,
            valueName: "command"
        )
    )
    var brokerCommand: String?

    @Option(help: ArgumentHelp("Also write the figures to this file.", valueName: "file"))
    var json: String?

    @Flag(help: "Keep the directory with logs and configuration, and print its path.")
    var keep = false

    func validate() throws {
        guard (1...FanoutCrowd.membersMax).contains(members) else {
            throw ValidationError("--members must be 1 to \(FanoutCrowd.membersMax)")
        }
        if let overtakeAt, !(1...99).contains(overtakeAt) {
            throw ValidationError("--overtake-at must be 1 to 99")
        }
        guard (1...8).contains(workers) else { throw ValidationError("--workers must be 1 to 8") }
        guard workers == 1 || brokerCommand != nil else {
            throw ValidationError("--workers \(workers) needs --broker: the embedded broker's groups have one member")
        }
        guard (0...256).contains(lanes) else { throw ValidationError("--lanes must be 0 to 256") }
        guard (0...SingleCommandLoad.commandsPerSecondMax).contains(singleCommandsPerSecond) else {
            throw ValidationError("--beside must be 0 to \(SingleCommandLoad.commandsPerSecondMax)")
        }
        guard (0...10_000_000).contains(h2loadPushes) else {
            throw ValidationError("--h2load-pushes must be 0 to 10000000")
        }
    }

    func run() throws {
        do {
            let figures = try runFanout()
            StandardStreams.printOutput(figures.report)
            if let json { try TextFile.write(figures: figures, to: json) }
            guard figures.hasSucceeded else { throw ExitCode(1) }
        } catch let error as LabError {
            StandardStreams.printError("causeway-lab fanout: \(error)")
            throw ExitCode(1)
        }
    }

    private func runFanout() throws(LabError) -> FanoutFigures {
        let interruption = Interruption()
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: keep) }
        let deployment = try FanoutDeployment(
            directory: directory.path,
            programs: try ProgramPaths(),
            workerCount: workers,
            laneCount: lanes,
            brokerCommand: brokerCommand.map { $0.split(separator: " ").map(String.init) }
        )
        defer { deployment.stop() }
        try deployment.start()
        let run = try FanoutRun(
            memberCount: members,
            overtakePercent: overtakeAt,
            h2loadPushCount: h2loadPushes,
            singleCommandsPerSecond: singleCommandsPerSecond,
            on: deployment,
            interruption: interruption
        )
        defer { run.close() }
        return try run.run()
    }
}
