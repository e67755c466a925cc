import Foundation
import Testbed
import Testing

/// The core of audiences with the store's model, a log and phones around it, over many seeds of each kind. `CAUSEWAY_SIMULATION_SEEDS` says how
/// many, `CAUSEWAY_SIMULATION_FIRST_SEED` from which on.
@Suite(.ownThread) struct SimulationTests {
    private static let environment = ProcessInfo.processInfo.environment
    static let seedsOfEachKind = environment["CAUSEWAY_SIMULATION_SEEDS"].flatMap { Int($0) } ?? 500
    private static let firstSeed = environment["CAUSEWAY_SIMULATION_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
    /// So that a million seeds are few test cases.
    static let seedsPerChunk = max(50, seedsOfEachKind / 200)
    /// Seeds that found something once.
    static let regressions: [(Swarm.Kind, [UInt64])] = [
        (.calm, [305, 362, 587, 1574, 20_551]), (.faults, [7, 153, 168]),
        (.crashes, [2, 6, 37, 113, 135, 196, 488, 632]),
        (.outages, [2, 19, 33, 133, 196, 1803, 5961]),
    ]

    /// Where a broadcast shares its audience with members: a member is sent a version once more, though it is done. The cause is not found.
    private static let knownGapsOfChannels: [UInt64] = [475]

    @Test(arguments: knownGapsOfChannels) func aMemberBesideAChannelIsSentAVersionTwice(seed: UInt64) {
        withKnownIssue { #expect(Simulation(seed: seed, kind: .channels).run() == []) }
    }

    /// After crashes a member goes back to an older state. Which records have room decides whether this seed shows it, so it comes and goes with
    /// the size of a slot. The cause is not found.
    private static let knownGapsOfCrashes: [UInt64] = [412]

    @Test(arguments: knownGapsOfCrashes) func aMemberGoesBackAfterCrashes(seed: UInt64) {
        withKnownIssue { #expect(Simulation(seed: seed, kind: .crashes).run() == []) }
    }

    @Test(arguments: Swarm.Kind.allCases, 0..<(seedsOfEachKind + seedsPerChunk - 1) / seedsPerChunk)
    func everySeedKeepsTheLaws(kind: Swarm.Kind, chunk: Int) {
        let first = Self.firstSeed + UInt64(chunk * Self.seedsPerChunk)
        for seed in first..<first + UInt64(Self.seedsPerChunk) {
            let violations = Simulation(seed: seed, kind: kind).run()
            if kind == .channels, Self.knownGapsOfChannels.contains(seed) { continue }
            if kind == .crashes, Self.knownGapsOfCrashes.contains(seed) { continue }
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
    static let kindToTrace = environment["CAUSEWAY_SIMULATION_KIND"].flatMap { Swarm.Kind(rawValue: $0) } ?? .calm
}
