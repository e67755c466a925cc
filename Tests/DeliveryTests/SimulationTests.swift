import Delivery
import LiveActivity
import Testbed
import Testing

/// Runs the core with the scripts' model, a log and phones around it, for many seeds of each kind: ``SimulationSeeds``.
@Suite(.ownThread) struct SimulationTests {
    private static let seeds = SimulationSeeds<Swarm.Kind>(standardCount: 1_000)
    private static let pace: [UInt64] = [
        390, 3010, 5327, 7411, 12038, 16144, 20404, 30112, 43611, 73417, 103247, 108623,
    ]
    /// Seeds that once broke an invariant, and the fault that each found.
    ///
    /// plain:
    /// - 165: A partition that was lost without a revocation kept its waiting records. The same record, read again, was a duplicate of
    ///   itself.
    /// - 367: A held start came back older than the waiting updates, and was superseded by them.
    /// - 622: A retry did not ask Redis again, although another worker had admitted an end.
    /// - 892: Another record of a start was admitted again, although the first one may have been sent.
    /// - 5163: `hold` answers `duplicate` if another worker has sent the command between the two calls.
    /// - 5889: A command that was released for a revoked partition was kept.
    /// - 118065: The check was wrong: a start may be left out after its activity has ended.
    ///
    /// tokens:
    /// - 8324: A command that another command's token had released, and that a newer one then replaced, had no result.
    ///
    /// pace:
    /// - 390: A start that waited for its device's budget was lost when its registration's partition moved.
    /// - 3010: The same held start, brought by a second registration, counted as superseded.
    /// - 5327: A start was repeated although another worker had called it unknown, and the phone got a second activity.
    /// - 7411, 16144: An alert was lost: Redis was told that its command had ended before the state that carried the alert was sent.
    /// - 20404: The check was wrong: until its app allows frequent updates, an activity has the usual budget, which may hold more.
    /// - 12038, 73417: A superseded command with an alert had no result, although no newer alert replaced it.
    /// - 30112, 103247: The check was wrong: Redis cannot order the alerts of two living workers.
    /// - 43611, 108623: The check was wrong: a start may be left out after its activity has ended.
    ///
    /// longLives:
    /// - 108: A first registration, read again after a second one, was stale and released no held command.
    /// - 2122: A `hold` whose reply is lost leaves a command in two records, and both may send it.
    ///
    /// repeats:
    /// - 755: A held alert rang twice, or after a newer one.
    /// - 4949: Redis was told too early that a held start was finished, and a crash lost the start.
    /// - 6049, 7212: The check was wrong: an alert may be lost with a newer state that expires.
    /// - 7882: A draw that was made beside a returned one counted from the time of the returned one, so the next start went some
    ///   milliseconds early.
    /// - 21365, 30787: An alert of an earlier assignment took the turn of its own record, which was read again.
    ///
    /// connections:
    /// - 56: A held alert rang twice, or after a newer one.
    ///
    /// deferrals:
    /// - 1, 81: A ready push was deferred before it was offered to its pool, so nothing found that APNs was back.
    static let regressions: [(Swarm.Kind, [UInt64])] = [
        (.plain, [165, 367, 622, 892, 5163, 5889, 118065]),
        (.tokens, [8324]),
        (.pace, pace),
        (.longLives, [108, 2122]),
        (.repeats, [755, 4949, 6049, 7212, 7882, 21365, 30787]),
        (.connections, [56]),
        (.deferrals, [1, 81]),
    ]

    /// Random histories, on a clock that the simulation sets. A seed repeats its history exactly. (R1)
    @Test(arguments: seeds.kinds, seeds.chunks)
    func `Every seed keeps the invariants`(kind: Swarm.Kind, chunk: Int) {
        for seed in Self.seeds.seeds(ofChunk: chunk) {
            let violations = Simulation(seed: seed, kind: kind).run()
            if let report = SimulationSeeds.report(kind, seed, violations) {
                Issue.record("\(report)")
                return
            }
        }
    }

    @Test(arguments: regressions) func `Seeds of earlier bugs keep the invariants`(kind: Swarm.Kind, seeds: [UInt64]) {
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

    /// Every verdict and every outcome occurs, because the invariants check nothing that never occurs.
    @Test func `Every verdict and outcome occurs`() {
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
        // No producer of the simulation writes invalid commands, and no push-to-start token dies.
        #expect(Set(Outcome.allCases).subtracting(outcomes) == [.invalid, .unregistered])
    }

    /// Prints every step of the seed that `CAUSEWAY_SIMULATION_SEED` names, of the kind that `CAUSEWAY_SIMULATION_KIND` names.
    @Test(.enabled(if: seeds.seedToTrace != nil), arguments: seeds.kinds.prefix(1))
    func `One seed is traced`(kind: Swarm.Kind) throws {
        let simulation = Simulation(seed: try #require(Self.seeds.seedToTrace), kind: kind)
        print(simulation.swarm)
        simulation.trace = { print($0) }
        #expect(simulation.run() == [])
    }
}
