import LiveActivity
import Numbers

/// The measurements of a demo. `TextReport` shows them, and `--json` writes them to a file.
struct DemoFigures: Codable, Equatable, RunFigures {
    struct Freshness: Codable, Equatable {
        var p50Milliseconds: Int64
        var p99Milliseconds: Int64
        var maximumMilliseconds: Int64

        /// Makes the percentiles. Returns nil if the histogram is empty.
        init?(_ histogram: DurationHistogram) {
            guard let p50 = histogram.percentileMilliseconds(50), let p99 = histogram.percentileMilliseconds(99) else {
                return nil
            }
            p50Milliseconds = p50
            p99Milliseconds = p99
            maximumMilliseconds = histogram.longestMilliseconds
        }
    }

    /// A phone that does not show its final state.
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

    struct NamedProcessUsage: Codable, Equatable {
        var name: String
        var usage: ProcessUsage
    }

    /// The figures of broadcast channels and of the phones on them. Half of all phones are on channels.
    struct Channels: Codable, Equatable {
        /// The number of phones that must be on channels.
        var phones: Int
        /// How many of the phones on channels got at least one broadcast.
        var phonesReached: Int
        /// Update tokens of phones on channels. Activities on channels have no update tokens, so this must be 0.
        var strayTokens: Int
        var broadcasts: Int
        /// Broadcasts that arrived, summed over the phones.
        var broadcastsReceived: Int
        var created: Int
        /// Channels that APNs still has at the end, although the worker should have deleted all.
        var left: Int

        var deleted: Int { created - left }
        var phonesPerBroadcast: Double { broadcasts > 0 ? Double(broadcastsReceived) / Double(broadcasts) : 0 }
        var hasSucceeded: Bool { phonesReached == phones && strayTokens == 0 && created > 0 && left == 0 }

        /// The result in two lines: one about the phones, one about the channels.
        var summaryLines: [String] {
            [
                "\(Numeral.grouped(phonesReached)) of \(Numeral.grouped(phones)) phones on channels got broadcasts, "
                    + "\(Numeral.grouped(strayTokens)) registered a token",
                "\(Numeral.grouped(created)) channels created, \(Numeral.grouped(deleted)) deleted, "
                    + "\(Numeral.grouped(left)) left",
            ]
        }
    }

    var matches: Int
    /// The number of audiences that got commands; 0 if the commands went to activities.
    var audiences: Int
    /// The figures of channels; nil if no phone is on a channel.
    var channels: Channels?
    var balls: Int
    var phones: Int
    /// The time from the first ball to the last.
    var seasonSeconds: Double
    /// The time from the beginning of the season, after the starts, to the last result.
    var secondsToLastResult: Double
    var commands: Int
    /// The number of commands by outcome. Outcomes without commands are left out. The outcomes that exist only for
    /// fan-outs come first, the others in the order of `Outcome`.
    var outcomes: [OutcomeCount]
    var pushes: Int
    /// The pushes that start activities before the season. The rates of the season leave them out.
    var pushesBeforeSeason = 0
    var pushesAtPriority10: Int
    var pushesAtPriority5: Int { pushes - pushesAtPriority10 }
    /// The worker's CPU time divided by the number of pushes; 0 without pushes.
    var workerMicrosecondsPerPush: Double
    var retries: Int
    var repeatedResults: Int
    /// Commands that were held and that have a second result, because their token registered.
    var released: Int
    var invalidations: Int
    var deadLetters: Int
    var freshness: Freshness?
    var worker: ProcessUsage
    /// The CPU time and memory of the demo's own process, and of each process that it has started except the worker.
    var otherProcesses: [NamedProcessUsage]
    var scores: [Score]
    var phonesWithFinalScore: Int
    /// How often a phone went back in time: it got a state older than the one that it showed.
    var phonesBackInTime: Int
    /// How often a push started an activity that the phone already had.
    var phonesStartedTwice: Int
    var wrongPhones: [WrongPhone]
    /// Pushes that were sent at priority 5 instead of 10, because the activity's budget was empty or had only its
    /// reserve left.
    var demotions: Int
    /// How often the demo caused each fault that its command line asks for. Faults that visitors of the live page
    /// caused do not count.
    var disturbances: [DisturbanceCount]

    /// The keys in the JSON. A key stays as it is when its property is renamed.
    private enum CodingKeys: String, CodingKey {
        case matches, audiences, channels, balls, phones, seasonSeconds
        case secondsToLastResult = "replaySeconds"
        case commands, outcomes, pushes, pushesBeforeSeason, pushesAtPriority10, workerMicrosecondsPerPush, retries
        case repeatedResults, released, invalidations, deadLetters, freshness, worker
        case otherProcesses = "others"
        case scores, phonesWithFinalScore, phonesBackInTime, phonesStartedTwice, wrongPhones, demotions, disturbances
    }

    struct DisturbanceCount: Codable, Equatable {
        var what: String
        var count: Int
    }

    struct OutcomeCount: Codable, Equatable {
        var outcome: String
        var count: Int

        static func all(of tally: ResultTally) -> [OutcomeCount] {
            // If an `Outcome` and a `FanoutOutcome` have the same name, add their counts.
            var all = Outcome.allCases.map { OutcomeCount(outcome: "\($0.name)", count: tally[$0]) }
            for outcome in FanoutOutcome.allCases {
                let name = "\(outcome.name)"
                if let index = all.firstIndex(where: { $0.outcome == name }) {
                    all[index].count += tally.fanoutCount(of: outcome)
                } else {
                    all.insert(OutcomeCount(outcome: name, count: tally.fanoutCount(of: outcome)), at: 0)
                }
            }
            return all.filter { $0.count > 0 }
        }
    }

    /// The average number of the season's pushes in each second of `secondsToLastResult`.
    var pushesPerSecond: Double {
        secondsToLastResult > 0 ? Double(pushes - pushesBeforeSeason) / secondsToLastResult : 0
    }
    var cpuMicrosecondsPerCommand: Double { worker.cpuMicroseconds(per: commands) }
    var pushesPerCommand: Double { commands > 0 ? Double(pushes) / Double(commands) : 0 }

    var hasSucceeded: Bool { arePhonesCorrect && channels?.hasSucceeded ?? true }

    /// Whether every phone shows its final state, none got an older state, and none started an activity twice.
    var arePhonesCorrect: Bool {
        phonesWithFinalScore == phones && phonesBackInTime == 0 && phonesStartedTwice == 0 && wrongPhones.isEmpty
    }

    var summary: String {
        "\(Numeral.grouped(phonesWithFinalScore)) of \(Numeral.grouped(phones)) phones show the final score; "
            + "\(Numeral.grouped(phonesBackInTime)) went back in time"
    }
}
