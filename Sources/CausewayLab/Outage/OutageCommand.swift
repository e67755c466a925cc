import ArgumentParser
import CausewayCommandLine

/// `causeway-lab outage`: what a worker makes of everything that can be away, late, wrong or empty.
struct OutageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outage",
        abstract: "Break what a worker stands on, case by case, and hold what reached the phones against the promises.",
        discussion: """
            Each case starts a broker, a redis-server, APNs with phones and one or more workers, writes commands, breaks something, makes \
            it whole again, and looks from outside: at what was written, what arrived at APNs, what the phones show. A line for each:

              lost     activities whose phone does not show their newest state that is not past its own expiration, and alerts that never \
            rang though not older than their bound
              old      pushes that were accepted past their bound (a start 600 s, an alert 300 s, an update 8 h, an end 12 h after its \
            timestamp), or after a newer one
              twice    alerts and starts that reached a phone twice
              silence  the longest time in which an activity that had a newer state was not updated

            What the promises allow after a crash or a lost Redis is counted apart, as repeated after a crash.

            Examples:
              causeway-lab outage
              causeway-lab outage --case apns-503 --keep
              causeway-lab outage --list

            Exit codes: 0 all promises were kept; 1 one was not, or a part failed; 64 the command line is wrong.
            """
    )

    @Option(name: .customLong("case"), help: ArgumentHelp("Only this case. Repeatable.", valueName: "name"))
    var names: [String] = []

    @Flag(help: "Say which cases there are, and play none.")
    var list = false

    @Option(help: "How many times as many activities as a case has by itself.")
    var scale = 1

    @Option(
        help: ArgumentHelp(
            "Serves a broker whose groups rebalance: a program, its arguments, and last a directory for it; it prints its place as "
                + "causeway-lab broker does. Without it the cases of several workers have one.",
            valueName: "command"
        )
    )
    var broker: String?

    @Flag(help: "Keep each case's directory with logs, configuration and pushes, and say where it is.")
    var keep = false

    func validate() throws {
        guard (1...100).contains(scale) else { throw ValidationError("--scale must be 1 to 100") }
        for name in names where !OutageCase.all.contains(where: { $0.name == name }) {
            throw ValidationError("--case \(name): there is no such case; --list names them")
        }
    }

    func run() throws {
        let cases = OutageCase.all.filter { names.isEmpty || names.contains($0.name) }
        if list {
            for outage in cases { StandardStreams.printOutput("\(outage.name): \(outage.summary)") }
            return
        }
        let interruption = Interruption()
        var reports: [OutageReport] = []
        for outage in cases {
            do throws(LabError) {
                reports.append(try play(outage.scaled(by: scale), interruption))
            } catch {
                if interruption.pending != nil { throw ExitCode(1) }
                reports.append(OutageReport(name: outage.name, verdict: OutageVerdict(), broken: ["\(error)"]))
            }
            StandardStreams.printOutput(reports[reports.count - 1].text)
        }
        StandardStreams.printOutput(OutageReport.summary(of: reports))
        guard reports.allSatisfy(\.isGood) else { throw ExitCode(1) }
    }

    private func play(_ outage: OutageCase, _ interruption: Interruption) throws(LabError) -> OutageReport {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: keep) }
        let stage = try OutageStage(
            outage,
            directory: directory.path,
            programs: try ProgramFiles(),
            rebalancingBroker: broker.map { $0.split(separator: " ").map(String.init) }
        )
        defer { stage.end() }
        try stage.start()
        return try OutageRun(outage, on: stage, interruption: interruption).run()
    }
}

extension OutageCase {
    /// With so many times as many activities.
    fileprivate func scaled(by scale: Int) -> OutageCase {
        var scaled = self
        for index in scaled.apps.indices {
            scaled.apps[index].activities *= scale
            scaled.apps[index].startedByPush *= scale
        }
        return scaled
    }
}
