import Delivery
import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Runs of the demo's cricket season. Commands come ten times faster than the phones may be updated, and the
/// budget is too small. A checker that shares no code with the program checks all promises
/// (`Tests/Acceptance/season`).
@Suite("Seasons faster than their phones", .serialized, .timeLimit(.minutes(10)))
struct PromiseTests {
    private static let acceptanceDirectory = Repository.path("Tests/Acceptance")

    /// Runs a season, and then the checker over its logs.
    private func runSeason(
        _ arguments: [String],
        allowing checkerOptions: [String] = []
    ) async throws -> (figures: DemoFigures, report: String) {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: false) }
        let run = try await DemoRun.run(arguments + ["--evidence", directory.path])
        #expect(run.exitCode == 0, "\(run.output)")
        let figures = try #require(run.figures, "\(run.output)")
        #expect(figures.phonesWithFinalScore == figures.phones)
        #expect(figures.outcomes.reduce(0) { $0 + $1.count } == figures.commands)
        // The tolerance is 0.7 s, because other programs may use the same processors and delay a push that was sent in
        // time. The checker still finds a worker that repeatedly sends too early. The checker compares each push with
        // all earlier pushes, so these errors add up until they exceed the tolerance.
        let toleranceOptions =
            ["--tolerance", "700"] + (checkerOptions.contains("--wait-spacings") ? [] : ["--wait-spacings", "5"])
        let check = try await onOwnThread {
            try runProgram(
                "/usr/bin/env",
                ["python3", "-B", "\(Self.acceptanceDirectory)/season/check.py", directory.path] + toleranceOptions
                    + checkerOptions
            )
        }
        #expect(check.exitCode == 0, "\(check.text)")
        return (figures, check.text)
    }

    @Test func `The checker catches each violated invariant`() async throws {
        let run = try await onOwnThread {
            try runProgram(
                "/usr/bin/env",
                ["python3", "-B", "-m", "unittest", "season/test_check.py"],
                directory: Self.acceptanceDirectory
            )
        }
        #expect(run.exitCode == 0, "\(run.text)")
        #expect(run.text.contains("\nOK") && run.text.contains(/Ran [1-9][0-9]* tests/))
    }

    @Test(arguments: [SupersededResultMode.each, .counted])
    func `Every promise is kept when the budget runs out`(
        supersededResults: SupersededResultMode
    ) async throws {
        let choice = ["--superseded-results", supersededResults.rawValue]
        let run = try await runSeason(
            ["--matches", "3", "--followers", "50", "--seconds", "25", "--budget", "8"] + choice,
            allowing: choice
        )
        #expect(run.figures.demotions > 0, "the budget is meant to run out")
        #expect(run.figures.pushes * 5 < run.figures.commands, "ten commands come in the time of a push")
        #expect(run.figures.repeatedResults == 0)
    }

    @Test func `An outage of Redis for ten seconds loses nothing`() async throws {
        // While Redis does not reply, it admits no command. Redis then comes back as a new process and may have lost
        // its newest writes, so the worker reads the newest commands again (R25). The lane sends nothing before it has
        // read all of them, which takes seconds with the embedded broker. So states wait for up to 24 spacings. A push
        // that was in flight when Redis went away may be sent again. Some commands get a second result, and a push
        // without the alert that is due. A later push rings the alert.
        let run = try await runSeason(
            [
                "--matches", "2", "--followers", "20", "--seconds", "22", "--budget", "8", "--redis-away-at", "5",
            ],
            allowing: [
                "--repeats", "40", "--results-again", "200", "--silent-pushes", "200", "--wait-spacings", "24",
            ]
        )
        #expect(run.figures.disturbances.count == 2)
    }

    /// The worker is killed together with Redis. The next worker reads again the records whose data Redis has
    /// lost. An alert of the last second may ring twice, because its offset was not committed.
    @Test func `After Redis is wiped, the phones still end with the right state`() async throws {
        let run = try await runSeason(
            [
                "--matches", "2", "--followers", "20", "--seconds", "22", "--budget", "8", "--wipe-at", "8",
                "--crash-at", "8",
            ],
            allowing: [
                "--repeats", "40", "--results-again", "2000", "--alerts-again", "20", "--wipes", "1", "--wait-spacings",
                "20",
            ]
        )
        #expect(run.figures.disturbances.count == 2)
    }

    @Test(arguments: [SupersededResultMode.each, .countedWhenBehind])
    func `A backlog becomes one push for each activity`(supersededResults: SupersededResultMode) async throws {
        let directory = try WorkDirectory()
        defer { directory.remove(keeping: false) }
        let json = "\(directory.path)/figures.json"
        let run = try await onOwnThread {
            try runProgram(
                ExampleRun.programs.lab,
                [
                    "backlog", "--commands", "200000", "--activities", "2000", "--json", json, "--unhurried",
                    "--superseded-results", supersededResults.rawValue, "--data", ExampleFiles("season").directory.path,
                ]
            )
        }
        #expect(run.exitCode == 0, "\(run.text)")
        let figures = try JSONDecoder().decode(BacklogFigures.self, from: Data(try TextFile.read(json)))
        #expect(figures.pushCount == 2_000 && figures.phonesWithFinalScore == 2_000)
        #expect(figures.outcomes.reduce(0) { $0 + $1.count } == 200_000)
        #expect(supersededResults == .each ? figures.resultRecordCount == 200_000 : figures.resultRecordCount < 20_000)
    }
}
