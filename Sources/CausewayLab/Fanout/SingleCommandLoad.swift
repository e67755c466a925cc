import APNsSimulator
import Foundation
import Kafka

/// Sends commands to single activities outside the audience at a steady rate, before and during the fan-out. These
/// commands show whether the fan-out delays other activities.
struct SingleCommandLoad {
    enum Phase: String, CaseIterable {
        /// The time before the first command is sent to the audience.
        case before
        /// The time from the first command to the audience until every member shows the newest state.
        case during
    }

    /// The freshness of single commands: the time from the record to APNs' response.
    struct Freshness: Codable, Equatable {
        /// The number of commands that APNs accepted.
        var commands: Int
        var p50Milliseconds: Int64
        var p99Milliseconds: Int64
    }

    static let commandsPerSecondMax = 20_000
    /// How long the phase without a fan-out lasts.
    static let phaseBeforeFanoutMilliseconds: Int64 = 10_000
    static let crowdName = "beside-"
    /// The seconds between two commands of an activity: more than the default policy's spacing, so that no push waits
    /// for the spacing.
    private static let commandIntervalSecondsPerActivity = 2

    let crowd: FanoutCrowd
    private let commandsPerSecond: Int
    private(set) var phase: Phase?
    private var phaseBeganAtMilliseconds: Int64 = 0
    private var phaseCommandCount = 0
    private(set) var writtenCommandCount = 0
    private(set) var resultCount = 0
    private var freshness: [Phase: DurationHistogram] = [:]

    init(commandsPerSecond: Int, client: LoopbackHTTPClient) {
        self.commandsPerSecond = commandsPerSecond
        crowd = FanoutCrowd(
            phoneCount: commandsPerSecond * Self.commandIntervalSecondsPerActivity,
            name: Self.crowdName,
            contentTimestamp: 0,
            audiences: [],
            client: client
        )
    }

    /// Begins a phase: from now on, its commands are written. Nil: no further commands are written.
    mutating func begin(_ phase: Phase?, atMilliseconds: Int64) {
        self.phase = phase
        phaseBeganAtMilliseconds = atMilliseconds
        phaseCommandCount = 0
    }

    /// Writes the commands that are due. If the producer's queue is full, the next call writes the rest.
    mutating func writeDueCommands(
        to commandProducer: CommandProducer,
        atMilliseconds: Int64,
        wallMilliseconds: Int64
    )
        throws(LabError)
    {
        guard let phase else { return }
        let dueCommandCount = Int((atMilliseconds - phaseBeganAtMilliseconds) * Int64(commandsPerSecond) / 1_000)
        while phaseCommandCount < dueCommandCount {
            let activity = crowd.compactCrowd.activityIdentifier(writtenCommandCount % crowd.compactCrowd.phoneCount)
            let value = Self.makeRecord(
                phase,
                writtenCommandCount,
                activity: activity,
                timestamp: wallMilliseconds / 1_000
            )
            switch commandProducer.produceCommand(key: activity, value: value) {
            case .queued: break
            case .queueFull: return
            case .failed(let error): throw LabError("a single command could not be produced: \(error)")
            }
            phaseCommandCount += 1
            writtenCommandCount += 1
        }
    }

    /// Counts the result of a single command, whose id is for example `beside-before-17`. Ignores other results.
    mutating func countResult(_ command: String, outcome: String, times: [String: Int64]) {
        guard command.hasPrefix(Self.crowdName) else { return }
        resultCount += 1
        let name = command.dropFirst(Self.crowdName.count).prefix { $0 != "-" }
        guard let phase = Phase(rawValue: String(name)), outcome == "accepted",
            let recordTimestampMilliseconds = times["record"], let responseAtWallMilliseconds = times["responded"]
        else { return }
        freshness[phase, default: DurationHistogram()]
            .add(milliseconds: responseAtWallMilliseconds - recordTimestampMilliseconds)
    }

    func freshness(_ phase: Phase) -> Freshness? {
        guard let histogram = freshness[phase], let p50 = histogram.percentileMilliseconds(50),
            let p99 = histogram.percentileMilliseconds(99)
        else { return nil }
        return Freshness(commands: histogram.count, p50Milliseconds: p50, p99Milliseconds: p99)
    }

    private static func makeRecord(_ phase: Phase, _ number: Int, activity: String, timestamp: Int64) -> [UInt8] {
        Array(
            """
            {"app":"\(FanoutDeployment.app)","activity":"\(activity)","id":"\(crowdName)\(phase.rawValue)-\(number)","sequence":\(number),"aps":{"event":"update","timestamp":\(timestamp),"content-state":{"points":\(number)}}}
            """
            .utf8
        )
    }
}
