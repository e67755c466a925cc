import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("Small seasons on the command line", .serialized, .timeLimit(.minutes(10)), .ownThread)
struct SeasonRunTests {
    private static let matchCount = 3
    private static let followerCount = 6

    /// Runs `causeway-lab demo` with the small season.
    private func runDemo(_ arguments: [String]) async throws -> DemoRun {
        try await DemoRun.run(["--matches", "\(Self.matchCount)", "--followers", "\(Self.followerCount)"] + arguments)
    }

    private func checkFigures(_ figures: DemoFigures) throws {
        let files = try SeasonFiles(directory: ExampleFiles("season").directory.path)
        let ballCount = files.season.matches.prefix(Self.matchCount).reduce(0) { $0 + $1.balls.count }
        let startCount = Self.matchCount * Self.followerCount / 2
        #expect(figures.balls == ballCount)
        #expect(figures.commands == (ballCount + Self.matchCount) * Self.followerCount + startCount)
        #expect(figures.pushesBeforeSeason == startCount && figures.pushes > startCount)
        #expect(figures.outcomes.reduce(0) { $0 + $1.count } == figures.commands)
        #expect(figures.phones == Self.matchCount * Self.followerCount)
        #expect(figures.phonesWithFinalScore == figures.phones)
        #expect(figures.phonesBackInTime == 0 && figures.phonesStartedTwice == 0)
        #expect(figures.deadLetters == 0 && figures.invalidations == 0)
        #expect(figures.scores.map(\.result) == files.season.matches.prefix(Self.matchCount).map(\.resultLine))
        #expect(figures.worker.cpuMilliseconds > 0 && figures.worker.residentPeakBytes > 0)
    }

    @Test func `Every phone shows the final score`() async throws {
        let run = try await runDemo(["--seconds", "8"])
        #expect(run.exitCode == 0, "\(run.output)")
        #expect(run.output.contains("18 of 18 phones show the final score; 0 went back in time"), "\(run.output)")
        let figures = try #require(run.figures)
        try checkFigures(figures)
        #expect(figures.repeatedResults == 0 && figures.disturbances.isEmpty)
        #expect(figures.pushes < figures.commands)
        let freshness = try #require(figures.freshness)
        #expect(freshness.p50Milliseconds <= freshness.p99Milliseconds)
    }

    @Test func `A worker killed in the middle of the season loses nothing`() async throws {
        let run = try await runDemo(["--seconds", "10", "--crash-at", "4"])
        #expect(run.exitCode == 0, "\(run.output)")
        let figures = try #require(run.figures)
        try checkFigures(figures)
        #expect(figures.disturbances == [.init(what: "worker killed on purpose", count: 1)])
    }

    /// Checks the figures of a run with audiences. The producer sends one command for each ball, and a start and an
    /// end for each match, whatever the number of followers. The starts that the worker writes for each device do not
    /// count.
    private func checkAudiences(_ figures: DemoFigures) throws {
        let files = try SeasonFiles(directory: ExampleFiles("season").directory.path)
        let ballCount = files.season.matches.prefix(Self.matchCount).reduce(0) { $0 + $1.balls.count }
        #expect(figures.audiences == Self.matchCount && figures.commands == ballCount + 2 * Self.matchCount)
        #expect(figures.outcomes.reduce(0) { $0 + $1.count } == figures.commands)
        #expect(figures.outcomes.first { $0.outcome == "started" }?.count == Self.matchCount)
        #expect((figures.outcomes.first { $0.outcome == "delivered" }?.count ?? 0) > 0)
        #expect(figures.phonesWithFinalScore == Self.matchCount * Self.followerCount)
        #expect(figures.phonesBackInTime == 0 && figures.phonesStartedTwice == 0)
        #expect(figures.pushes > figures.phones && figures.pushesAtPriority10 > 0)
        #expect(figures.deadLetters == 0 && figures.invalidations == 0)
        #expect(figures.worker.cpuMilliseconds > 0 && figures.workerMicrosecondsPerPush > 0)
    }

    @Test func `One command reaches all followers of a match`() async throws {
        let run = try await runDemo(["--audiences", "--seconds", "8"])
        #expect(run.exitCode == 0, "\(run.output)")
        #expect(run.output.contains("18 of 18 phones show the final score; 0 went back in time"), "\(run.output)")
        #expect(run.output.contains("one command a ball, to the audience of its match"), "\(run.output)")
        let figures = try #require(run.figures)
        try checkAudiences(figures)
        #expect(figures.repeatedResults == 0 && figures.disturbances.isEmpty && figures.freshness != nil)
    }

    @Test func `Audiences survive the kill of a worker and the loss of Redis`() async throws {
        let run = try await runDemo(["--audiences", "--seconds", "14", "--crash-at", "3", "--wipe-at", "9"])
        #expect(run.exitCode == 0, "\(run.output)")
        let figures = try #require(run.figures)
        try checkAudiences(figures)
        #expect(figures.disturbances.map(\.count) == [1, 1])
    }

    /// Half of the phones have no update tokens. The worker deletes the channels after the matches.
    @Test func `Phones on channels get their states by broadcast`() async throws {
        let run = try await runDemo(["--channels", "--seconds", "8"])
        #expect(run.exitCode == 0, "\(run.output)")
        #expect(run.output.contains("18 of 18 phones show the final score; 0 went back in time"), "\(run.output)")
        #expect(run.output.contains("9 of 9 phones on channels got broadcasts"), "\(run.output)")
        #expect(run.output.contains("3 channels created, 3 deleted, 0 left"), "\(run.output)")
        let figures = try #require(run.figures)
        try checkAudiences(figures)
        let channels = try #require(figures.channels)
        #expect(channels.phones == 9 && channels.phonesReached == 9 && channels.strayTokens == 0)
        #expect(channels.created == Self.matchCount && channels.left == 0)
        // Each broadcast reaches the three phones of its match that are on the channel.
        #expect(channels.broadcasts > Self.matchCount && channels.broadcastsReceived == 3 * channels.broadcasts)
        #expect(figures.repeatedResults == 0 && figures.disturbances.isEmpty)
    }

    @Test(
        arguments: ["--audiences", "--channels"],
        [["--evidence", "evidence"], ["--superseded-results", "counted"]]
    )
    func `Options that audiences do not have are refused`(flag: String, option: [String]) async throws {
        let run = try await runDemo([flag] + option)
        #expect(run.exitCode == 64)
        #expect(run.output.contains("\(option[0])") && run.output.contains("with \(flag)"), "\(run.output)")
    }

    @Test func `Missing data is reported`() async throws {
        let run = try await DemoRun.run(data: "/nowhere")
        #expect(run.exitCode == 1)
        #expect(
            run.output.contains("causeway-lab demo: /nowhere/ipl-2018-matches.csv: No such file or directory"),
            "\(run.output)"
        )
    }

    @Test(arguments: [
        ["--followers", "0"], ["--channels", "--followers", "1"], ["--seconds", "0"], ["--crash-at", "60"],
        ["--lanes", "257"],
    ])
    func `Numbers out of their range are refused`(arguments: [String]) async throws {
        #expect(try await runDemo(arguments).exitCode == 64)
    }
}
