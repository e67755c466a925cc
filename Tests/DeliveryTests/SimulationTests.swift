import Delivery
import LiveActivity
import Testbed
import Testing

/// The core keeps its invariants in the random histories of many seeds (``SimulationSeeds``), with models of Kafka,
/// Redis and the phones. For example, no phone goes back from a newer state to an older one.
@Suite(.ownThread) struct SimulationTests {
    private static let seeds = SimulationSeeds<SimulationParameters.Kind>(defaultSeedCountPerKind: 1_000)
    private static let paceSeeds: [UInt64] = [
        390, 3010, 5327, 7411, 12038, 16144, 20404, 30112, 43611, 73417, 103247, 108623,
    ]
    /// Seeds that once failed, by kind of run. The list says what each of them found.
    ///
    /// plain:
    /// - 165: A worker lost a partition without a revocation. The core kept its waiting records. When one of them was
    ///   read again, the core took it for a duplicate.
    /// - 367: Redis released a held start. The updates that waited in the lane were newer, and superseded it.
    /// - 622: While a push waited for its retry, another worker admitted an end. The retry did not ask Redis again.
    /// - 892: Two records had the same start. Redis admitted the second, although the first may have been sent.
    /// - 5163: Between a worker's calls `admit` and `hold`, another worker sent the command. The reply to `hold` was
    ///   `duplicate`, which the core did not expect.
    /// - 5889: Redis released a command to a record whose partition was revoked. The command stayed in memory.
    /// - 118065: The check was wrong: a start need not be sent after its activity has ended.
    ///
    /// tokens:
    /// - 8324: A command brought a token, which released a held command. A newer command replaced the released
    ///   command, which then had no result.
    ///
    /// pace:
    /// - 390: A registration released a held start, which waited for its device's budget. Then the partition of the
    ///   registration moved to another worker. The start was lost.
    /// - 3010: Two registrations released the same held start. The start then counted as superseded.
    /// - 5327: A worker sent a start again after another worker had reported it as `unknown`. The phone got a
    ///   second activity.
    /// - 7411, 16144: An alert moved to a newer state. The core settled the alert's command in Redis before it had sent
    ///   the newer state. The alert was lost.
    /// - 12038, 73417: A superseded command with an alert had no result, although no newer alert replaced it.
    /// - 20404: The check was wrong: before its first registration an activity has the budget without frequent updates.
    ///   This may hold more than the budget for frequent updates.
    /// - 30112, 103247: The check was wrong: Redis cannot order the alerts of two workers that push at the same time.
    /// - 43611, 108623: The check was wrong: a start need not be sent after its activity has ended.
    ///
    /// longLives:
    /// - 108: Of two registrations, only the first was read again. It was stale, so it did not release the held
    ///   command.
    /// - 2122: The reply to `hold` was lost, so two records had the same command, and each could send it.
    ///
    /// repeats:
    /// - 138: Two records had the same end, which carried an alert. The alert moved from one to the other, and was
    ///   lost.
    /// - 755: A held alert rang twice, or after a newer one.
    /// - 4949: The core settled a held start in Redis too early, and a crash then lost the start's result.
    /// - 6049, 7212: The check was wrong: an alert may be lost with a newer state that expires.
    /// - 7882: Redis got a refund and another draw at the same time. It confused the times of the two draws, so the
    ///   next start was some milliseconds early.
    /// - 21365, 30787: A push carried an alert while its partition was assigned again. The response settled the alert's
    ///   record of the new assignment.
    ///
    /// old:
    /// - 300471: The check was wrong: a start is deferred if its lane is more than half full.
    ///
    /// connections:
    /// - 56: A held alert rang twice, or after a newer one.
    ///
    /// deferrals:
    /// - 1, 81: Each push was deferred before the core had offered it to its pool. So the core never learned that APNs
    ///   accepted pushes again.
    ///
    /// audiences:
    /// - 2411: A registration was repeated after a tombstone of the same millisecond. The activity got its token back,
    ///   but was in no audience.
    ///
    /// lives:
    /// - 160, 699: The start of the second life was deferred. Redis refused the commands after it as `ended`.
    /// - 3059: Redis held an update of the second life. Then the end of the first life came, and Redis dropped the
    ///   update.
    /// - 4689: A start waited in the lane as long as the end of the first life was deferred again and again.
    /// - 6137: An update waited in the lane as long as its start was deferred again and again.
    ///
    /// losses:
    /// - 2391: Redis lost data again before a record above the rereading's end was read again. The record then counted
    ///   as a new one, so its alert rang again.
    /// - 465, 3475, 10408: The check was wrong: an alert may ring again if its record was not settled at the loss
    ///   (K18).
    /// - 4859: The check was wrong: nobody notices a loss that comes before a partition's first marks.
    static let regressions: [(SimulationParameters.Kind, [UInt64])] = [
        (.plain, [165, 367, 622, 892, 5163, 5889, 118065]),
        (.tokens, [8324]),
        (.pace, paceSeeds),
        (.longLives, [108, 2122]),
        (.repeats, [138, 755, 4949, 6049, 7212, 7882, 21365, 30787]),
        (.old, [300471]),
        (.connections, [56]),
        (.deferrals, [1, 81]),
        (.audiences, [2411]),
        (.lives, [160, 699, 3059, 4689, 6137]),
        (.losses, [465, 2391, 3475, 4859, 10408]),
    ]

    /// Random histories in virtual time. A seed repeats its history exactly. (R1)
    @Test(arguments: seeds.kinds, seeds.chunks)
    func `Every seed keeps the invariants`(kind: SimulationParameters.Kind, chunk: Int) {
        for seed in Self.seeds.seeds(ofChunk: chunk) {
            let violations = Simulation(seed: seed, kind: kind).run()
            if let report = SimulationSeeds.violationReport(kind, seed, violations) {
                Issue.record("\(report)")
                return
            }
        }
    }

    @Test(arguments: regressions) func `Seeds of earlier bugs keep the invariants`(
        kind: SimulationParameters.Kind,
        seeds: [UInt64]
    ) {
        for seed in seeds {
            for supersededResults in SupersededResultMode.allCases {
                for commits in [nil, CommitParameters.withoutMetadata, .withMetadata] {
                    let simulation = Simulation(
                        seed: seed,
                        kind: kind,
                        supersededResults: supersededResults,
                        commits: commits
                    )
                    #expect(simulation.run() == [], "seed \(seed)")
                }
            }
        }
    }

    /// An invariant proves nothing about a case that never occurs. So every verdict must occur in the runs, and every
    /// outcome of a list. If the runs reach another outcome, add it to the list, so that it must occur from then on.
    @Test func `Every verdict and outcome occurs`() {
        var verdicts: Set<StoreVerdict> = []
        var outcomes: Set<Outcome> = []
        var supersededCommandCount = 0
        for kind in SimulationParameters.Kind.allCases {
            for seed in UInt64(1)...100 {
                let simulation = Simulation(seed: seed, kind: kind)
                _ = simulation.run()
                verdicts.formUnion(simulation.verdicts)
                outcomes.formUnion(simulation.results.values.joined())
                supersededCommandCount += simulation.counting.supersededCounts.values.reduce(0, +)
            }
        }
        let allVerdicts = Set((UInt8.min...UInt8.max).compactMap(StoreVerdict.init(rawValue:)))
        #expect(allVerdicts.subtracting(verdicts) == [])
        #expect(supersededCommandCount > 0)
        // `invalid` is missing, because no producer of the simulation writes an invalid command, and `unregistered`,
        // because no push-to-start token dies.
        let reachedOutcomes: Set<Outcome> = [
            .accepted, .unchanged, .duplicate, .superseded, .held, .ended, .expired, .failed, .unknown,
        ]
        #expect(outcomes.symmetricDifference(reachedOutcomes) == [])
    }

    /// A rereading begins at a partition's first record if Redis has lost all data, and later if Redis has lost only
    /// its newest writes. Both must occur in the runs of kind `losses`.
    @Test func `Records are read again after Redis has lost all data or its newest writes`() {
        var (emptiedCount, replacedCount, laterBeginningCount) = (0, 0, 0)
        for seed in UInt64(1)...50 {
            let simulation = Simulation(seed: seed, kind: .losses)
            #expect(simulation.run() == [], "seed \(seed)")
            emptiedCount += simulation.losses.emptiedCount
            replacedCount += simulation.losses.replacedCount
            laterBeginningCount += simulation.losses.laterBeginningCount
        }
        #expect(emptiedCount > 0 && replacedCount > 0 && laterBeginningCount > 0)
    }

    /// Prints every step of one run. `CAUSEWAY_SIMULATION_SEED` names its seed, and `CAUSEWAY_SIMULATION_KIND` its kind
    /// (by default the first kind).
    @Test(.enabled(if: seeds.seedToTrace != nil), arguments: seeds.kinds.prefix(1))
    func `One seed is traced`(kind: SimulationParameters.Kind) throws {
        let simulation = Simulation(seed: try #require(Self.seeds.seedToTrace), kind: kind)
        print(simulation.parameters)
        simulation.trace = { print($0) }
        #expect(simulation.run() == [])
    }
}
