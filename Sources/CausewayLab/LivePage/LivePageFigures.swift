import Foundation

/// How far a run is, for the page. What is nil is not known in this run.
struct LivePageFigures: Encodable, Equatable, Sendable {
    /// Where a run is on its way. The words are the page's.
    enum Phase: String, Encodable, Sendable {
        /// The parts are being started, or the phones get their activities.
        case beginning
        case playing
        /// Every command is written; the last results and phones are awaited.
        case settling
        /// The run has its verdict.
        case over
        case failed
        /// A simulator without a demo. It never ends, and knows only the commands that have a result.
        case open
    }

    struct Freshness: Encodable, Equatable, Sendable {
        var p50Milliseconds: Int64
        var p99Milliseconds: Int64
    }

    /// The end of a run.
    struct Verdict: Encodable, Equatable, Sendable {
        var isGood: Bool
        /// A sentence, as at the end of the demo's output.
        var text: String
        /// Phones that do not show their final state.
        var lost: Int
    }

    var phase = Phase.beginning
    var elapsedMilliseconds: Int64?
    var durationMilliseconds: Int64?
    /// Commands written to Kafka, those that have a result, and all that the run will write.
    var commands: Int?
    var results: Int?
    var commandsInAll: Int?
    /// Commands without a result although they were written this long ago.
    var late: Int?
    var lateAfterSeconds: Int?
    /// Why the results cannot be read; nil if they are read, or if nobody requested them.
    var resultsFault: String?
    /// Of the pushes answered in the last second.
    var freshness: Freshness?
    /// Priority 10 pushes of which a phone's budget consists, and those it gains in an hour.
    var budgetPushes: Int?
    var budgetRefillPerHour: Int?
    var matchesOver: Int?
    var matches: Int?
    var news: String?
    var verdict: Verdict?
    /// Why the run failed.
    var failure: String?

    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        // Texts and numbers always have a JSON form.
        return (try? encoder.encode(self)).map { Array($0) } ?? Array("{}".utf8)
    }
}

/// Counts the commands that should have had their result by now.
///
/// Results do not say when their commands were written, and do not come in order. So this counts from below: of the commands that had been
/// written a while ago, at least those that exceed the number of all results so far have none.
struct LateCommands {
    static let afterMilliseconds: Int64 = 30_000
    private static let stepMilliseconds: Int64 = 250
    private static let samplesMax = Int(afterMilliseconds / stepMilliseconds) + 2

    /// Commands written up to a moment, oldest first; the first sample is at least as old as the limit, if there is one.
    private var samples: [(milliseconds: Int64, commands: Int)] = []

    mutating func note(commands: Int, nowMilliseconds: Int64) {
        if let last = samples.last, nowMilliseconds - last.milliseconds < Self.stepMilliseconds { return }
        samples.append((nowMilliseconds, commands))
        while samples.count > 1, nowMilliseconds - samples[1].milliseconds >= Self.afterMilliseconds {
            samples.removeFirst()
        }
        if samples.count > Self.samplesMax { samples.removeFirst() }
    }

    func count(results: Int, nowMilliseconds: Int64) -> Int {
        guard let first = samples.first, nowMilliseconds - first.milliseconds >= Self.afterMilliseconds else {
            return 0
        }
        return max(0, first.commands - results)
    }
}

/// How fresh the pushes of about the last second were, from a histogram that only grows.
struct RecentFreshness {
    private static let windowMilliseconds: Int64 = 1_000

    private var histogram = Histogram()
    private var nextMilliseconds: Int64 = 0
    private var newest: LivePageFigures.Freshness?

    /// - Returns: nil if nothing was pushed.
    mutating func measure(_ whole: Histogram, nowMilliseconds: Int64) -> LivePageFigures.Freshness? {
        guard nowMilliseconds >= nextMilliseconds else { return newest }
        nextMilliseconds = nowMilliseconds + Self.windowMilliseconds
        let recent = whole.since(histogram)
        histogram = whole
        newest = recent.percentile(50)
            .flatMap { p50 in
                recent.percentile(99).map { LivePageFigures.Freshness(p50Milliseconds: p50, p99Milliseconds: $0) }
            }
        return newest
    }
}
