import Foundation

/// The progress of a run, for the page. A property is nil if the run does not know the value.
struct LivePageFigures: Encodable, Equatable, Sendable {
    /// The phase of a run. `page.html` and its scripts use the same words.
    enum Phase: String, Encodable, Sendable {
        /// The processes are being started, or the phones get their activities.
        case beginning
        case playing
        /// Every command is written, and the run waits for the last results and phones.
        case settling
        /// The run has ended, and `verdict` says whether it was good.
        case over
        case failed
        /// A simulator runs without a demo. This phase never ends, and the page learns about commands only from
        /// results.
        case open
    }

    struct Freshness: Encodable, Equatable, Sendable {
        var p50Milliseconds: Int64
        var p99Milliseconds: Int64
    }

    struct Verdict: Encodable, Equatable, Sendable {
        var isGood: Bool
        /// The sentence that the demo prints at its end: what the phones show, and whether the run was good.
        var closingSentence: String
        /// The number of phones that do not show their final state.
        var wrongPhoneCount: Int

        /// The keys in the JSON, which the page's scripts read.
        private enum CodingKeys: String, CodingKey {
            case isGood
            case closingSentence = "text"
            case wrongPhoneCount = "lost"
        }
    }

    var phase = Phase.beginning
    var elapsedMilliseconds: Int64?
    var durationMilliseconds: Int64?
    /// The number of commands that the page knows: those that the run has written to Kafka so far. In the phase `open`,
    /// the page knows a command only by its result, so this is the number of commands that have a result.
    var knownCommandCount: Int?
    /// The number of written commands that have a result.
    var results: Int?
    /// The number of commands that the run will have written at its end.
    var commandsInAll: Int?
    /// At least this many commands are late: they are older than `lateAfterSeconds` and have no result.
    var late: Int?
    var lateAfterSeconds: Int?
    /// Why the results cannot be read; nil if they are read, or if the page was started without results.
    var resultsFault: String?
    /// The freshness (the time from a command's record to APNs' response) of the pushes whose results were read in
    /// about the last second.
    var freshness: Freshness?
    /// How many pushes at priority 10 an activity's full budget allows.
    var budgetPushes: Int?
    /// How many pushes an activity's budget regains in an hour.
    var budgetRefillPerHour: Int?
    var finishedMatchCount: Int?
    var matchCount: Int?
    var news: String?
    var verdict: Verdict?
    /// Why the run failed; nil if it has not failed.
    var failure: String?

    /// The keys in the JSON, which the page's scripts read. A key stays as it is when its property is renamed.
    private enum CodingKeys: String, CodingKey {
        case phase, elapsedMilliseconds, durationMilliseconds
        case knownCommandCount = "commands"
        case results, commandsInAll, late, lateAfterSeconds, resultsFault, freshness, budgetPushes, budgetRefillPerHour
        case finishedMatchCount = "matchesOver"
        case matchCount = "matches"
        case news, verdict, failure
    }

    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        // Encoding cannot fail, because the figures have only texts and numbers.
        return (try? encoder.encode(self)).map { Array($0) } ?? Array("{}".utf8)
    }
}

/// Counts late commands: those that were written at least ``lateAfterMilliseconds`` ago and have no result.
///
/// The count is a lower bound: the number of commands that old, minus the number of all results. Example: 100 commands
/// are old enough, and there are 90 results, 5 of them for newer commands. The count is 10; the true number is 15.
struct LateCommandCounter {
    static let lateAfterMilliseconds: Int64 = 30_000
    private static let sampleIntervalMilliseconds: Int64 = 250
    private static let samplesMax = Int(lateAfterMilliseconds / sampleIntervalMilliseconds) + 2

    /// How many commands had been written at earlier times, oldest first. `lateCount` needs the newest sample that is
    /// at least ``lateAfterMilliseconds`` old. Still older samples are removed.
    private var samples: [(atMilliseconds: Int64, commandCount: Int)] = []

    mutating func addSample(commandCount: Int, nowMilliseconds: Int64) {
        if let last = samples.last, nowMilliseconds - last.atMilliseconds < Self.sampleIntervalMilliseconds { return }
        samples.append((nowMilliseconds, commandCount))
        while samples.count > 1, nowMilliseconds - samples[1].atMilliseconds >= Self.lateAfterMilliseconds {
            samples.removeFirst()
        }
        if samples.count > Self.samplesMax { samples.removeFirst() }
    }

    func lateCount(resultCount: Int, nowMilliseconds: Int64) -> Int {
        guard let first = samples.first, nowMilliseconds - first.atMilliseconds >= Self.lateAfterMilliseconds else {
            return 0
        }
        return max(0, first.commandCount - resultCount)
    }
}

/// Measures the freshness (the time from a command's record to APNs' response) of the pushes that a growing histogram
/// has gained in about the last second.
struct RecentFreshness {
    private static let measurementMilliseconds: Int64 = 1_000

    private var lastHistogram = DurationHistogram()
    private var nextMeasurementAtMilliseconds: Int64 = 0
    private var newestFreshness: LivePageFigures.Freshness?

    /// Returns the freshness of the pushes since the last measurement; nil if there were none. Measures at most once a
    /// second: in between, returns the last result again.
    mutating func measure(_ currentHistogram: DurationHistogram, nowMilliseconds: Int64) -> LivePageFigures.Freshness? {
        guard nowMilliseconds >= nextMeasurementAtMilliseconds else { return newestFreshness }
        nextMeasurementAtMilliseconds = nowMilliseconds + Self.measurementMilliseconds
        let recent = currentHistogram.subtracting(lastHistogram)
        lastHistogram = currentHistogram
        newestFreshness = recent.percentileMilliseconds(50)
            .flatMap { p50 in
                recent.percentileMilliseconds(99)
                    .map { LivePageFigures.Freshness(p50Milliseconds: p50, p99Milliseconds: $0) }
            }
        return newestFreshness
    }
}
