import Numbers
import Testbed

@testable import Delivery

/// How a run commits offsets and hands partitions over.
struct SimulatedCommits {
    /// Whether the metadata of a commit holds the settled offsets above the committed one. Without it their records are read again, as when
    /// the metadata does not fit.
    var keepMetadata: Bool
    var intervalMilliseconds: Int64
    /// Every partition is drained and committed before it moves.
    var areHandoversOrderly: Bool

    /// Commits as they were before they had metadata, for seeds that found something then.
    static let withoutMetadata = SimulatedCommits(
        keepMetadata: false,
        intervalMilliseconds: 0,
        areHandoversOrderly: false
    )
    static let withMetadata = SimulatedCommits(keepMetadata: true, intervalMilliseconds: 0, areHandoversOrderly: true)

    private init(keepMetadata: Bool, intervalMilliseconds: Int64, areHandoversOrderly: Bool) {
        self.keepMetadata = keepMetadata
        self.intervalMilliseconds = intervalMilliseconds
        self.areHandoversOrderly = areHandoversOrderly
    }

    /// Uses separate random numbers, so that the other draws of a seed do not change.
    init(seed: UInt64) {
        var coin = SplitMix64(simulationSeed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        keepMetadata = coin.chance(700)
        intervalMilliseconds = [0, 1_000][coin.number(0...1)]
        areHandoversOrderly = coin.chance(500)
    }
}

/// The invariants of handovers.
extension Simulation {
    /// Whether the seed drew nothing that may lose an acknowledgement or cause a record with a result to be read again. Then no result is
    /// written twice.
    private var repeatsNothing: Bool {
        commits.keepMetadata && commits.areHandoversOrderly && swarm.crash == 0 && swarm.productionFailure == 0
            && swarm.suppliedToken == 0
    }

    func checkHandovers() {
        guard repeatsNothing else { return }
        for place in log.places where place.topic == 0 {
            let counts = firstResults[place, default: [:]]
            for (offset, count) in counts.sorted(by: { $0.key < $1.key }) where count > 1 {
                let command = counting.commands[place]?[offset] ?? "a record"
                violations.append("\(command) at \(offset) of \(place): \(count) results; \(results[command] ?? [])")
            }
        }
    }
}

extension Simulation {
    /// Whether the group has committed that a record is settled: below the offset, or in the metadata above it.
    func isCommitted(_ offset: Int64, of place: SimulatedLog.Place) -> Bool {
        let commit = log.commits[place] ?? SimulatedLog.Commit()
        if offset < commit.offset { return true }
        let ranges = commit.metadata.withUnsafeBytes {
            SettledOffsetsText.decode($0, committedOffset: commit.offset)
        }
        return ranges?.contains { $0.contains(offset) } ?? false
    }
}
