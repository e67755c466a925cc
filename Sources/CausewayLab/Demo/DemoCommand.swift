import ArgumentParser
import CausewayCommandLine
import Delivery
import Foundation
import LiveActivity
import Reactor

/// `causeway-lab demo`: plays a season of cricket matches, from the commands in Kafka to the screens of simulated
/// phones.
struct DemoCommand: SeasonCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Send a real cricket season to simulated phones, and show the cost.",
        discussion: """
            This command replays the 2018 Indian Premier League, with all matches at once and in one minute, through a \
            real worker: commands go to an embedded Kafka, and pushes go over TLS and HTTP/2 to a simulated APNs. Each \
            part is a separate process on loopback, on free ports. redis-server must be installed. The demo sends \
            nothing to other machines, and removes its files when it ends.

            Examples:
              causeway-lab demo
              causeway-lab demo --followers 100 --seconds 120
              causeway-lab demo --seconds 20 --crash-at 8
              causeway-lab demo --audiences
              causeway-lab demo --channels
              causeway-lab demo --open

            The address that is printed first is a page on which you watch the phones and cause faults. The page is \
            available until the demo ends. With --stay or --open, it is available until Ctrl-C.

            Exit codes: 0 every phone shows the final score, and no channel is left; 1 otherwise, or a process failed; \
            64 the command line is wrong.
            """
    )

    private static let redisOutageSeconds = 10
    private static let budgetRefillPerHour = 600

    @Option(help: "Phones that follow each match, 1 to \(CommandTemplate.followersMax).")
    var followers = 50

    @Option(help: "Seconds from the first ball to the last, 1 to 3600.")
    var seconds = 60

    @Option(help: "Matches of the season, from the first on.")
    var matches = 60

    @Flag(help: "For each ball, send one command to an audience of the match's phones, not one to each phone.")
    var audiences = false

    @Flag(
        help: """
            Like --audiences, but half of the phones (iOS 18) use broadcast channels, one for each match, instead of \
            tokens. The demo waits until the worker has deleted the channels, up to 150 seconds longer.
            """
    )
    var channels = false

    @Option(help: "Threads of the worker; 0: one for each core.")
    var lanes = 1

    @Option(
        help: ArgumentHelp(
            "Kill the worker this many seconds after the first ball, and start another.",
            valueName: "seconds"
        )
    )
    var crashAt: Int?

    @Option(
        help: ArgumentHelp(
            "Stop Redis this many seconds after the first ball, for \(redisOutageSeconds) s.",
            valueName: "seconds"
        )
    )
    var redisAwayAt: Int?

    @Option(
        help: ArgumentHelp(
            "Delete all data in Redis this many seconds after the first ball; the worker restores it from Kafka.",
            valueName: "seconds"
        )
    )
    var wipeAt: Int?

    @Option(
        help: ArgumentHelp(
            """
            Set the budget of each activity to this number of pushes of priority 10, plus \(budgetRefillPerHour) per \
            hour. A third is reserved for alerts and ends.
            """,
            valueName: "pushes"
        )
    )
    var budget: Int?

    @Option(
        help: ArgumentHelp(
            "Write commands, results and pushes to this directory, for Tests/Acceptance/season/check.py.",
            valueName: "directory"
        )
    )
    var evidence: String?

    @Option(help: "Whether superseded commands get results, as in kafka.supersededResults.")
    var supersededResults = SupersededResultMode.each

    @Option(help: ArgumentHelp("Also write the figures to this file.", valueName: "file"))
    var json: String?

    @Option(
        help: ArgumentHelp(
            "Directory of the season's two files. Default: search for them.",
            valueName: "directory"
        )
    )
    var data: String?

    @Flag(help: "Keep the page and the phones after the season, until Ctrl-C.")
    var stay = false

    @Flag(help: "Open the page in a browser, and keep it until Ctrl-C.")
    var open = false

    @Option(help: "The port of the page; 0: any free port.")
    var pagePort: UInt16 = 0

    @Flag(help: "Keep the directory with logs and configuration, and print its path.")
    var keep = false

    func validate() throws {
        guard (1...CommandTemplate.followersMax).contains(followers) else {
            throw ValidationError("--followers must be 1 to \(CommandTemplate.followersMax)")
        }
        guard (1...3_600).contains(seconds) else { throw ValidationError("--seconds must be 1 to 3600") }
        guard (1...Season.matchesMax).contains(matches) else {
            throw ValidationError("--matches must be 1 to \(Season.matchesMax)")
        }
        guard (0...256).contains(lanes) else { throw ValidationError("--lanes must be 0 to 256") }
        for (name, moment) in [("crash-at", crashAt), ("redis-away-at", redisAwayAt), ("wipe-at", wipeAt)] {
            if let moment, !(0..<seconds).contains(moment) {
                throw ValidationError("--\(name) must be before the last ball, 0 to \(seconds - 1)")
            }
        }
        guard crashAt == nil || supersededResults == .each else {
            throw ValidationError(
                "--crash-at cannot be used with counted results: a crash loses counts, and the demo would wait for them"
            )
        }
        try validateAudiences()
        if let redisAwayAt, let wipeAt, (redisAwayAt...redisAwayAt + Self.redisOutageSeconds).contains(wipeAt) {
            throw ValidationError("--wipe-at must not be while Redis is stopped")
        }
        if let budget, !(1...Policy.Bucket.pushesMax).contains(budget) {
            throw ValidationError("--budget must be 1 to \(Policy.Bucket.pushesMax)")
        }
    }

    private func validateAudiences() throws {
        guard audiences || channels else { return }
        let flag = channels ? "--channels" : "--audiences"
        guard evidence == nil else {
            throw ValidationError("--evidence checks commands to single activities, so it cannot be used with \(flag)")
        }
        guard supersededResults == .each else {
            throw ValidationError(
                "--superseded-results must be each with \(flag): each command to an audience has a result"
            )
        }
        guard !channels || followers > 1 else {
            throw ValidationError(
                "--channels gives half of each match's phones a channel, so --followers must be at least 2"
            )
        }
    }

    func makeReport(of figures: DemoFigures) -> String {
        TextReport(figures, isColoured: isatty(STDOUT_FILENO) == 1).lines.joined(separator: "\n")
    }

    func playSeason(_ files: SeasonFiles, on deployment: Deployment, until interruption: Interruption) throws(LabError)
        -> DemoFigures
    {
        var options = DemoOptions(
            followerCount: followers,
            seasonSeconds: seconds,
            matchCount: matches,
            laneCount: lanes,
            shapesPath: files.shapesPath,
            disturbances: disturbances
        )
        options.supersededResults = supersededResults
        if audiences || channels { options.addressees = .audiences }
        options.hasChannels = channels
        if let budget {
            options.policy.frequentBudget = Policy.Bucket(
                pushes: budget,
                refillPerHour: Self.budgetRefillPerHour,
                reservedForAlerts: budget / 3
            )
        }
        if let evidence { options.evidenceFiles = try EvidenceFiles(directory: evidence) }
        let page = try LivePageServer(pageMailbox: LivePageMailbox(), listeningAt: .loopback(port: pagePort))
        page.printAddress(opensBrowser: open)
        let demo = try Demo(
            options: options,
            season: files.season,
            deployment: deployment,
            interruption: interruption,
            pageMailbox: page.pageMailbox
        )
        defer { if !isKeptOpen { page.stop() } }
        return try demo.run()
    }

    private var isKeptOpen: Bool { stay || open }

    func waitBeforeStop(on deployment: Deployment, until interruption: Interruption) {
        guard isKeptOpen else { return }
        StandardStreams.printError("The page is available until Ctrl-C.")
        interruption.awaitSignal()
    }

    private var disturbances: [Disturbance] {
        func makeDisturbances(at seconds: Int?, _ kind: Disturbance.Kind) -> [Disturbance] {
            seconds.map { [Disturbance(afterMilliseconds: Int64($0) * 1_000, kind: kind)] } ?? []
        }
        return makeDisturbances(at: crashAt, .workerCrashes) + makeDisturbances(at: redisAwayAt, .redisStops)
            + makeDisturbances(at: redisAwayAt.map { $0 + Self.redisOutageSeconds }, .redisRestarts)
            + makeDisturbances(at: wipeAt, .redisIsWiped)
    }
}
