import Testbed
import Testing

@testable import CausewayLab

@Suite("The report at the end", .ownThread)
struct TextReportTests {
    static func makeFigures() throws -> DemoFigures {
        var histogram = DurationHistogram()
        for value in [12, 40, 900] { histogram.add(milliseconds: Int64(value)) }
        let usage = try #require(
            ProcessUsage(
                stat: "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 650 70 0 0 20",
                status: "Name:\tx\nVmHWM:\t  65536 kB\n",
                ticksPerSecond: 100
            )
        )
        return DemoFigures(
            matches: 60,
            audiences: 0,
            channels: nil,
            balls: 14_286,
            phones: 3_000,
            seasonSeconds: 60,
            secondsToLastResult: 61.5,
            commands: 718_800,
            outcomes: [.init(outcome: "accepted", count: 180_000), .init(outcome: "superseded", count: 538_800)],
            pushes: 180_000,
            pushesBeforeSeason: 1_500,
            pushesAtPriority10: 50_000,
            workerMicrosecondsPerPush: 40,
            retries: 0,
            repeatedResults: 0,
            released: 0,
            invalidations: 0,
            deadLetters: 0,
            freshness: DemoFigures.Freshness(histogram),
            worker: usage,
            otherProcesses: [.init(name: "broker", usage: usage), .init(name: "redis-server", usage: usage)],
            scores: (0..<60)
                .map { _ in
                    .init(
                        first: "MI 165/4 (20)",
                        second: "CSK 169/9 (19.5)",
                        result: "Chennai Super Kings won by 1 wicket"
                    )
                },
            phonesWithFinalScore: 3_000,
            phonesBackInTime: 0,
            phonesStartedTwice: 0,
            wrongPhones: [],
            demotions: 0,
            disturbances: []
        )
    }

    @Test func `Every line is as wide as the report`() throws {
        var figures = try Self.makeFigures()
        #expect(TextReport(figures, isColoured: false).lines.allSatisfy { $0.count == TextReport.width })
        figures.wrongPhones = (0..<20)
            .map { .init(activity: "1136561-\($0)", shows: String(repeating: "long ", count: 40)) }
        figures.freshness = nil
        figures.retries = 12
        figures.deadLetters = 3
        figures.scores = []
        #expect(TextReport(figures, isColoured: false).lines.allSatisfy { $0.count == TextReport.width })
    }

    @Test func `The report says what is particular to audiences`() throws {
        var figures = try Self.makeFigures()
        (figures.audiences, figures.commands) = (60, 14_400)
        let lines = TextReport(figures, isColoured: false).lines
        #expect(lines.allSatisfy { $0.count == TextReport.width })
        let text = lines.joined(separator: "\n")
        for expected in [
            "one command a ball, to the audience of its match", "12.5 pushes a command", "from record to last phone",
        ] {
            #expect(text.contains(expected), "\(expected)")
        }
    }

    private static let channels = DemoFigures.Channels(
        phones: 1_500,
        phonesReached: 1_500,
        strayTokens: 0,
        broadcasts: 3_000,
        broadcastsReceived: 75_000,
        created: 60,
        left: 0
    )

    @Test func `The report counts channels and broadcasts`() throws {
        var figures = try Self.makeFigures()
        (figures.audiences, figures.channels) = (60, Self.channels)
        let lines = TextReport(figures, isColoured: false).lines
        #expect(figures.hasSucceeded && lines.allSatisfy { $0.count == TextReport.width })
        let text = lines.joined(separator: "\n")
        for expected in [
            "1,500 phones are on 60 channels", "25.0 phones a broadcast", "BROADCASTS", "75,000",
            "1,500 of 1,500 phones on channels got broadcasts", "60 channels created, 60 deleted, 0 left",
        ] {
            #expect(text.contains(expected), "\(expected)")
        }
    }

    @Test func `One fault of a channel or a phone is enough for a bad result`() throws {
        let changes: [(inout DemoFigures.Channels) -> Void] = [
            { $0.left = 1 }, { $0.created = 0 }, { $0.phonesReached = 1_499 }, { $0.strayTokens = 1 },
        ]
        for change in changes {
            var figures = try Self.makeFigures()
            var channels = Self.channels
            change(&channels)
            figures.channels = channels
            #expect(!figures.hasSucceeded && figures.arePhonesCorrect, "\(channels)")
        }
    }

    @Test func `The lines of the frame meet the columns`() throws {
        let lines = TextReport(try Self.makeFigures(), isColoured: false).lines
        #expect(lines.first?.hasPrefix("╭") == true && lines.last?.hasPrefix("╰") == true)
        #expect(lines.contains { $0.hasPrefix("├") && $0.contains("┬") })
        #expect(lines.contains { $0.hasPrefix("├") && $0.contains("┼") })
        #expect(lines.contains { $0.hasPrefix("├") && $0.contains("┴") })
    }

    @Test func `The report shows the figures`() throws {
        let text = TextReport(try Self.makeFigures(), isColoured: false).lines.joined(separator: "\n")
        for expected in [
            "718,800", "180,000   25.0 %", "538,800   75.0 %", "at priority 5", "130,000", "7.20 s of CPU", "40.0 µs",
            "10.0 µs",
            "64 MiB", "2,902", "Chennai Super Kings won by 1 wicket",
            "3,000 of 3,000 phones show the final score; 0 went back in time",
        ] {
            #expect(text.contains(expected), "\(expected)")
        }
        #expect(!text.contains("\u{1B}"))
    }

    @Test func `The report has colours only on request`() throws {
        #expect(TextReport(try Self.makeFigures(), isColoured: true).lines.contains { $0.contains("\u{1B}[1;32m") })
    }

    @Test func `A wrong phone is named`() throws {
        var figures = try Self.makeFigures()
        #expect(figures.hasSucceeded)
        figures.phonesWithFinalScore = 2_999
        figures.wrongPhones = [.init(activity: "1136561-0007", shows: "CSK 165/9 (19.4), no result")]
        #expect(!figures.hasSucceeded)
        let text = TextReport(figures, isColoured: true).lines.joined(separator: "\n")
        #expect(text.contains("1136561-0007 shows CSK 165/9 (19.4), no result"))
        #expect(text.contains("\u{1B}[1;31m"))
    }

    @Test func `One wrong phone is enough for a bad result`() throws {
        var figuresOfOlderState = try Self.makeFigures()
        figuresOfOlderState.phonesBackInTime = 1
        #expect(!figuresOfOlderState.hasSucceeded)
        var figuresOfSecondStart = try Self.makeFigures()
        figuresOfSecondStart.phonesStartedTwice = 1
        #expect(!figuresOfSecondStart.hasSucceeded)
    }
}

@Suite("Progress", .ownThread)
struct ProgressTests {
    private let progress = DemoProgress(
        elapsedMilliseconds: 30_000,
        durationMilliseconds: 60_000,
        totalCommandCount: 718_800,
        resultCount: 300_000,
        commandsPerSecond: 12_000,
        pushesPerSecond: 3_000,
        finishedMatchCount: 4,
        matchCount: 60,
        latestEventText: "SIX! DJ Bravo 68 (30)"
    )

    @Test func `After half the time, half the bar is full`() {
        let bar = progress.barLine
        #expect(bar.count { $0 == "█" } == 20 && bar.count { $0 == "░" } == 20)
        #expect(bar.contains(" 30 s") && bar.contains("4 of 60 matches over"))
    }

    @Test func `The bar is never longer than its width`() {
        var lateProgress = progress
        lateProgress.elapsedMilliseconds = 90_000
        #expect(lateProgress.barLine.count { $0 == "█" } == DemoProgress.barWidth)
    }

    @Test func `The progress for a log is one line`() {
        #expect(
            progress.logLine
                == " 30 s  4 of 60 matches over, 12,000 commands/s, 3,000 pushes/s. SIX! DJ Bravo 68 (30)"
        )
    }
}
