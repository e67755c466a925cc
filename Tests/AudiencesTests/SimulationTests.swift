import Foundation
import Testbed
import Testing

/// The core of audiences with the store's model, a log and phones around it, over many seeds of each kind. `CAUSEWAY_SIMULATION_SEEDS` says how
/// many, `CAUSEWAY_SIMULATION_FIRST_SEED` from which on, `CAUSEWAY_SIMULATION_KIND` of which kind only.
@Suite(.ownThread) struct SimulationTests {
    private static let environment = ProcessInfo.processInfo.environment
    static let seedsOfEachKind = environment["CAUSEWAY_SIMULATION_SEEDS"].flatMap { Int($0) } ?? 1_430
    private static let firstSeed = environment["CAUSEWAY_SIMULATION_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
    /// So that a million seeds are few test cases.
    static let seedsPerChunk = max(50, seedsOfEachKind / 200)
    /// Seeds that found something once.
    static let regressions: [(Swarm.Kind, [UInt64])] = [
        (.calm, [305, 362, 587, 1574, 20_551]), (.faults, [7, 153, 168]),
        (.crashes, [2, 6, 37, 113, 135, 196, 488, 632]),
        (.outages, [2, 19, 33, 133, 196, 1803, 5961]),
        // A record came to a round that another had claimed: its parked members' pages were gone.
        (.partitions, [722]),
        // An answer came to a parked member of such a round.
        (.partitions, [1_243]), (.crashes, [1_751]),
        // A round waited for ever for a version that was passed over, or that another partition had committed.
        (.ranges, [998]), (.partitions, [998, 1_063]),
        // A version that was passed over after a crash began its lap anew, since its range's next checkpoint had left it out.
        (.channels, [475, 1_591]), (.crashes, [412, 1_112]), (.ranges, [1_727]),
    ]

    /// A crash leaves no room for a version's record while an older version has parked members: these may be sent the older state behind the
    /// newer one, and others the newer one once more. Or the last owner had recorded nothing of the newer version. Which seeds show it depends on
    /// the size of a slot, by which the room is counted.
    private static let knownGaps: [(Swarm.Kind, UInt64)] = [(.channels, 1_182), (.ranges, 742)]

    @Test(arguments: knownGaps) func aVersionIsPassedOverAfterACrash(kind: Swarm.Kind, seed: UInt64) {
        withKnownIssue { #expect(Simulation(seed: seed, kind: kind).run() == []) }
    }

    @Test(arguments: kinds, 0..<(seedsOfEachKind + seedsPerChunk - 1) / seedsPerChunk)
    func everySeedKeepsTheLaws(kind: Swarm.Kind, chunk: Int) {
        let first = Self.firstSeed + UInt64(chunk * Self.seedsPerChunk)
        for seed in first..<first + UInt64(Self.seedsPerChunk) {
            let violations = Simulation(seed: seed, kind: kind).run()
            if Self.knownGaps.contains(where: { $0 == (kind, seed) }) { continue }
            guard violations.isEmpty else {
                Issue.record("\(kind) \(seed): \(violations.prefix(3).joined(separator: "; "))")
                return
            }
        }
    }

    @Test(arguments: regressions) func seedsThatFoundSomething(kind: Swarm.Kind, seeds: [UInt64]) {
        for seed in seeds { #expect(Simulation(seed: seed, kind: kind).run() == [], "\(kind) \(seed)") }
    }

    /// Some of the workers have room for a few records only.
    @Test func recordsArePassedOverAndReadAgain() {
        let rereadings = (1...20 as ClosedRange<UInt64>)
            .map { seed in
                let simulation = Simulation(seed: seed, kind: .crashes)
                #expect(simulation.run() == [], "\(seed)")
                return simulation.rereadings
            }
        #expect(rereadings.contains { $0 > 0 })
    }

    /// Prints every step of the seed that `CAUSEWAY_SIMULATION_SEED` names, of the kind that `CAUSEWAY_SIMULATION_KIND` names.
    @Test(.enabled(if: seedToTrace != nil)) func trace() throws {
        let simulation = Simulation(seed: try #require(Self.seedToTrace), kind: Self.kindToTrace)
        print(simulation.swarm)
        simulation.trace = { print($0) }
        #expect(simulation.run() == [])
    }

    static let seedToTrace = environment["CAUSEWAY_SIMULATION_SEED"].flatMap { UInt64($0) }
    static let kindToTrace = onlyKind ?? .calm
    private static let onlyKind = environment["CAUSEWAY_SIMULATION_KIND"].flatMap { Swarm.Kind(rawValue: $0) }
    private static let kinds = onlyKind.map { [$0] } ?? Swarm.Kind.allCases
}
