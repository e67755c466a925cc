import Numbers
import Testbed

@testable import Delivery

/// How the workers of a run commit offsets, and how partitions move from one worker to another.
struct CommitParameters {
    /// Whether a commit's metadata names the settled offsets above the committed one. Without this metadata, the next
    /// owner reads their records again.
    var keepsMetadata: Bool
    var intervalMilliseconds: Int64
    /// Whether each partition is drained and committed before it moves.
    var drainsPartitionsBeforeMove: Bool

    /// Commits without metadata. Some regression seeds failed in runs with such commits.
    static let withoutMetadata = CommitParameters(
        keepsMetadata: false,
        intervalMilliseconds: 0,
        drainsPartitionsBeforeMove: false
    )
    static let withMetadata = CommitParameters(
        keepsMetadata: true,
        intervalMilliseconds: 0,
        drainsPartitionsBeforeMove: true
    )

    private init(keepsMetadata: Bool, intervalMilliseconds: Int64, drainsPartitionsBeforeMove: Bool) {
        self.keepsMetadata = keepsMetadata
        self.intervalMilliseconds = intervalMilliseconds
        self.drainsPartitionsBeforeMove = drainsPartitionsBeforeMove
    }

    /// Uses a separate generator, so that the run's own random numbers stay the same. So each seed in
    /// `SimulationTests.regressions` still repeats the history that failed.
    init(seed: UInt64, kind: SimulationParameters.Kind) {
        var separateRandom = SplitMix64(simulationSeed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        // Without metadata, the next owner reads settled records again. If Redis has lost them, nothing shows that they
        // were sent.
        keepsMetadata = separateRandom.chance(700) || kind == .losses
        intervalMilliseconds = [0, 1_000][separateRandom.number(0...1)]
        drainsPartitionsBeforeMove = separateRandom.chance(500)
    }
}

/// An invariant: if the run loses nothing, each record has only one result, also if its partition moves.
extension Simulation {
    /// Whether the run writes the result of each record only once. True if no acknowledgement is lost and no record
    /// with a result is read again.
    private var writesEachResultOnce: Bool {
        commitParameters.keepsMetadata && commitParameters.drainsPartitionsBeforeMove && parameters.crashPerMille == 0
            && parameters.produceFailurePerMille == 0
            && parameters.suppliedTokenPerMille == 0 && parameters.lossesMax == 0
    }

    func checkResultsAreWrittenOnce() {
        guard writesEachResultOnce else { return }
        for partition in log.allPartitions where partition.holdsCommands {
            let counts = firstResultCounts[partition, default: [:]]
            for (offset, count) in counts.sorted(by: { $0.key < $1.key }) where count > 1 {
                let command = counting.commands[partition]?[offset] ?? "a record"
                violations.append(
                    "\(command) at \(offset) of \(partition): \(count) results; \(results[command] ?? [])"
                )
            }
        }
    }
}

extension Simulation {
    /// Whether a commit says that the record is settled: the record's offset is below the committed one, or in the
    /// metadata.
    func isCommitted(_ offset: Int64, of partition: SimulatedLog.Partition) -> Bool {
        let commit = log.commits[partition] ?? SimulatedLog.Commit()
        if offset < commit.offset { return true }
        let ranges = commit.metadata.withUnsafeBytes {
            SettledOffsetsText.decode($0, committedOffset: commit.offset)
        }
        return ranges?.contains { $0.contains(offset) } ?? false
    }
}
