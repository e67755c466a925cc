import LiveActivity
import Numbers

/// The measurements of a demo. They are shown on the page and written by `--json`.
struct DemoFigures: Codable, Equatable, RunFigures {
    struct Freshness: Codable, Equatable {
        var p50Milliseconds: Int64
        var p99Milliseconds: Int64
        var maximumMilliseconds: Int64

        /// Nil if the histogram is empty.
        init?(_ histogram: Histogram) {
            guard let p50 = histogram.percentile(50), let p99 = histogram.percentile(99) else { return nil }
            p50Milliseconds = p50
            p99Milliseconds = p99
            maximumMilliseconds = histogram.maximumMilliseconds
        }
    }

    /// A phone that shows something wrong.
    struct WrongPhone: Codable, Equatable {
        var activity: String
        var shows: String
    }

    /// The score that the followers of one match see.
    struct Score: Codable, Equatable {
        var first: String
        var second: String
        var result: String
    }

    struct Part: Codable, Equatable {
        var name: String
        var usage: ProcessUsage
    }

    /// The part of a season in which half of the phones are on broadcast channels.
    struct Channels: Codable, Equatable {
        /// Phones whose activities must be on channels.
        var phones: Int
        /// Phones among them that a broadcast reached.
        var phonesReached: Int
        /// Update tokens that phones on channels registered although they must not.
        var strayTokens: Int
        var broadcasts: Int
        /// Broadcasts that arrived, counted on the phones.
        var broadcastsReceived: Int
        var created: Int
        /// Channels left at APNs after the worker had time to delete all of them.
        var left: Int

        var deleted: Int { created - left }
        var phonesPerBroadcast: Double { broadcasts > 0 ? Double(broadcastsReceived) / Double(broadcasts) : 0 }
        var isGood: Bool { phonesReached == phones && strayTokens == 0 && created > 0 && left == 0 }

        /// A line on the phones, and one on the channels.
        var verdict: [String] {
            [
                "\(Numeral.grouped(phonesReached)) of \(Numeral.grouped(phones)) phones on channels got broadcasts, "
                    + "\(Numeral.grouped(strayTokens)) registered a token",
                "\(Numeral.grouped(created)) channels created, \(Numeral.grouped(deleted)) deleted, "
                    + "\(Numeral.grouped(left)) left",
            ]
        }
    }

    var matches: Int
    /// Number of audiences that the commands were addressed to; 0: the commands were addressed to activities.
    var audiences: Int
    /// Nil: no phone is on a channel.
    var channels: Channels?
    var balls: Int
    var phones: Int
    /// From the first ball to the last.
    var seasonSeconds: Double
    /// From the first command to the last result.
    var replaySeconds: Double
    var commands: Int
    /// Commands by the outcome of their result, in the order of `Outcome`. Outcomes without commands are left out.
    var outcomes: [OutcomeCount]
    var pushes: Int
    var pushesAtPriority10: Int
    var pushesAtPriority5: Int { pushes - pushesAtPriority10 }
    /// All CPU time of the worker divided by the pushes; 0 if there were no pushes.
    var workerMicrosecondsPerPush: Double
    var retries: Int
    var repeatedResults: Int
    /// Commands that were held, and sent when their token registered.
    var released: Int
    var invalidations: Int
    var deadLetters: Int
    var freshness: Freshness?
    var worker: ProcessUsage
    /// Cost of the demo itself and of the parts beside the worker.
    var others: [Part]
    var scores: [Score]
    var phonesWithFinalScore: Int
    /// Phones that got something older than what they showed.
    var phonesBackInTime: Int
    /// Phones on which a push started an activity that was already there.
    var phonesStartedTwice: Int
    var wrongPhones: [WrongPhone]
    /// Pushes that requested priority 10 and were sent at 5, since the budget of their activity was used up.
    var demotions: Int
    /// What was done to the parts on purpose.
    var disturbances: [DisturbanceCount]

    struct DisturbanceCount: Codable, Equatable {
        var what: String
        var count: Int
    }

    struct OutcomeCount: Codable, Equatable {
        var outcome: String
        var count: Int

        static func all(of tally: Tally) -> [OutcomeCount] {
            // Two outcomes have the same names in results of single commands and of rounds.
            var all = Outcome.allCases.map { OutcomeCount(outcome: "\($0.name)", count: tally[$0]) }
            for round in RoundOutcome.allCases {
                let name = "\(round.name)"
                if let index = all.firstIndex(where: { $0.outcome == name }) {
                    all[index].count += tally.rounds(round)
                } else {
                    all.insert(OutcomeCount(outcome: name, count: tally.rounds(round)), at: 0)
                }
            }
            return all.filter { $0.count > 0 }
        }
    }

    var pushesPerSecond: Double { replaySeconds > 0 ? Double(pushes) / replaySeconds : 0 }
    var commandsPerSecond: Double { replaySeconds > 0 ? Double(commands) / replaySeconds : 0 }
    var cpuMicrosecondsPerCommand: Double { worker.microseconds(for: commands) }
    var pushesPerCommand: Double { commands > 0 ? Double(pushes) / Double(commands) : 0 }

    /// Whether every phone is right and no channel is left.
    var isGood: Bool { phonesAreRight && channels?.isGood ?? true }

    /// Whether every phone is right.
    var phonesAreRight: Bool {
        phonesWithFinalScore == phones && phonesBackInTime == 0 && phonesStartedTwice == 0 && wrongPhones.isEmpty
    }

    var verdict: String {
        "\(Numeral.grouped(phonesWithFinalScore)) of \(Numeral.grouped(phones)) phones show the final score; "
            + "\(Numeral.grouped(phonesBackInTime)) went back in time"
    }
}
