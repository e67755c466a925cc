import ArgumentParser
import CausewayCommandLine

/// `causeway-lab outage`: tests workers while Kafka, Redis, APNs or another worker is down, slow, faulty or empty.
struct OutageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outage",
        abstract: "Cause outages of Kafka, Redis, APNs and workers, one case after the other, and check the phones.",
        discussion: """
            Each case starts a broker, a redis-server, APNs with phones and one or more workers. It writes commands, \
            causes an outage of a process, ends the outage, and checks from outside: the records, the pushes at APNs, \
            and what the phones show. It prints one line:

              lost     activities whose phone does not show the newest state that is not past its own expiration, and alerts that \
            never rang although not too old
              old      pushes that were accepted too late (a start 600 s, an alert 300 s, an update 8 h, an end 12 h after its \
            timestamp), or after a newer one
              twice    alerts and starts that reached a phone twice
              silence  the longest time in which an activity with a newer state was not updated

            Some alerts and starts may repeat, after a crash or if Redis lost data. These count as permitted repeats.

            Examples:
              causeway-lab outage
              causeway-lab outage --case apns-503 --keep
              causeway-lab outage --list

            Exit codes: 0 all expectations met; 1 an expectation not met, or a process failed; 64 the command line is \
            wrong.
            """
    )

    @Option(name: .customLong("case"), help: ArgumentHelp("Only this case. Repeatable.", valueName: "name"))
    var names: [String] = []

    @Flag(help: "List the cases, and run none.")
    var list = false

    @Option(help: "Multiply the number of activities of each case by this number.")
    var scale = 1

    @Option(
        help: ArgumentHelp(
            """
            Serves a broker whose groups rebalance: a program, its arguments, then a directory for it. It must print \
            its address like causeway-lab broker. Without it, cases for several workers run one.
            """,
            valueName: "command"
        )
    )
    var broker: String?

    @Flag(help: "Keep each case's directory with logs, configuration and pushes, and print its path.")
    var keep = false

    func validate() throws {
        guard (1...100).contains(scale) else { throw ValidationError("--scale must be 1 to 100") }
        for name in names where !OutageCase.all.contains(where: { $0.name == name }) {
            throw ValidationError("--case \(name): there is no such case; --list prints all cases")
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
                if interruption.pendingSignal != nil { throw ExitCode(1) }
                reports.append(
                    OutageReport(name: outage.name, findings: OutageFindings(), unmetExpectations: ["\(error)"])
                )
            }
            StandardStreams.printOutput(reports[reports.count - 1].text)
        }
        StandardStreams.printOutput(OutageReport.summary(of: reports))
        guard reports.allSatisfy(\.hasSucceeded) else { throw ExitCode(1) }
    }

    private func play(_ outage: OutageCase, _ interruption: Interruption) throws(LabError) -> OutageReport {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: keep) }
        let deployment = try OutageDeployment(
            outage,
            directory: directory.path,
            programs: try ProgramPaths(),
            rebalancingBrokerCommand: broker.map { $0.split(separator: " ").map(String.init) }
        )
        defer { deployment.stop() }
        try deployment.start()
        return try OutageRun(outage, on: deployment, interruption: interruption).run()
    }
}

extension OutageCase {
    /// Returns the case with its numbers of activities multiplied by `scale`.
    fileprivate func scaled(by scale: Int) -> OutageCase {
        var scaled = self
        for index in scaled.apps.indices {
            scaled.apps[index].activityCount *= scale
            scaled.apps[index].pushStartedActivityCount *= scale
        }
        return scaled
    }
}
