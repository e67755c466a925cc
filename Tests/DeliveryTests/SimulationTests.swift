import Delivery
import Foundation
import LiveActivity
import Testbed
import Testing

/// The core with the scripts' model, a log and phones around it, over many seeds of each kind. `CAUSEWAY_SIMULATION_SEEDS` says how many,
/// `CAUSEWAY_SIMULATION_FIRST_SEED` from which on.
@Suite(.ownThread) struct SimulationTests {
    private static let environment = ProcessInfo.processInfo.environment
    static let seedsOfEachKind = environment["CAUSEWAY_SIMULATION_SEEDS"].flatMap { Int($0) } ?? 1_000
    private static let firstSeed = environment["CAUSEWAY_SIMULATION_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
    static let seedsPerChunk = 50
    private static let pace: [UInt64] = [
        390, 3010, 5327, 7411, 12038, 16144, 20404, 20986, 30112, 43611, 45298, 50171, 73417, 103247, 108623,
    ]
    /// Seeds that found something once.
    static let regressions: [(Swarm.Kind, [UInt64])] = [
        (.plain, [5, 65, 165, 367, 622, 892, 969, 1408, 4599, 5163, 5889, 6127, 118065]),
        (.tokens, [119, 301, 351, 1340, 2203, 3159, 4532, 8324]),
        (.pace, pace),
        (.longLives, [108, 2122, 5069]),
        (.repeats, [755, 4949, 6049, 7212, 7882, 20469, 21365, 30787, 58088]),
        (.connections, [56, 27930, 38504]),
        (.deferrals, [1, 5, 56, 81, 138]),
    ]

    @Test(arguments: Swarm.Kind.allCases, 0..<(seedsOfEachKind + seedsPerChunk - 1) / seedsPerChunk)
    func everySeedKeepsTheLaws(kind: Swarm.Kind, chunk: Int) {
        let first = Self.firstSeed + UInt64(chunk * Self.seedsPerChunk)
        for seed in first..<first + UInt64(Self.seedsPerChunk) {
            let violations = Simulation(seed: seed, kind: kind).run()
            guard violations.isEmpty else {
                Issue.record("seed \(seed): \(violations.prefix(3).joined(separator: "; "))")
                return
            }
        }
    }

    @Test(arguments: regressions) func seedsThatFoundSomething(kind: Swarm.Kind, seeds: [UInt64]) {
        for seed in seeds {
            for results in SupersededResults.allCases {
                for commits in [nil, SimulatedCommits.withoutMetadata, .withMetadata] {
                    let simulation = Simulation(
                        seed: seed,
                        kind: kind,
                        supersededResults: results,
                        commits: commits
                    )
                    #expect(simulation.run() == [], "seed \(seed)")
                }
            }
        }
    }

    /// What never comes about, the laws say nothing of.
    @Test func everyVerdictAndOutcomeComesAbout() {
        var verdicts: Set<StoreVerdict> = []
        var outcomes: Set<Outcome> = []
        var counted = 0
        for kind in Swarm.Kind.allCases {
            for seed in UInt64(1)...100 {
                let simulation = Simulation(seed: seed, kind: kind)
                _ = simulation.run()
                verdicts.formUnion(simulation.verdicts)
                outcomes.formUnion(simulation.results.values.joined())
                counted += simulation.counting.superseded.values.reduce(0, +)
            }
        }
        let allVerdicts = Set((UInt8.min...UInt8.max).compactMap(StoreVerdict.init(rawValue:)))
        #expect(allVerdicts.subtracting(verdicts) == [])
        #expect(counted > 0)
        // No producer of the simulation is wrong, and no push-to-start token dies.
        #expect(Set(Outcome.allCases).subtracting(outcomes) == [.invalid, .unregistered])
    }

    /// Prints every step of the seed that `CAUSEWAY_SIMULATION_SEED` names, of the kind that `CAUSEWAY_SIMULATION_KIND` names.
    @Test(.enabled(if: seedToTrace != nil)) func trace() throws {
        let simulation = Simulation(seed: try #require(Self.seedToTrace), kind: Self.kindToTrace)
        print(simulation.swarm)
        simulation.trace = { print($0) }
        #expect(simulation.run() == [])
    }

    static let seedToTrace = environment["CAUSEWAY_SIMULATION_SEED"].flatMap { UInt64($0) }
    static let kindToTrace = environment["CAUSEWAY_SIMULATION_KIND"].flatMap { Swarm.Kind(rawValue: $0) } ?? .plain
}
