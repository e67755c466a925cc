import Foundation
import Testing

@Suite struct SimulationTests {
    static let seedsInAll = 10_000
    static let seedsWithTokens = 5_000
    static let seedsPerChunk = 250
    /// Seeds that found something once.
    static let regressionsWithTokens: [UInt64] = [119, 301, 351, 1340, 2203, 3159, 4532]
    static let regressions: [UInt64] = [5, 65, 165, 367, 622, 892, 969, 1408, 5163, 6127]

    @Test(arguments: 0..<seedsInAll / seedsPerChunk) func everySeedKeepsTheLaws(chunk: Int) {
        let first = UInt64(chunk * Self.seedsPerChunk + 1)
        for seed in first..<first + UInt64(Self.seedsPerChunk) {
            let violations = Simulation(seed: seed).run()
            guard violations.isEmpty else {
                Issue.record("seed \(seed): \(violations.prefix(3).joined(separator: "; "))")
                return
            }
        }
    }

    @Test(arguments: 0..<seedsWithTokens / seedsPerChunk)
    func everySeedWithTokensInCommandsAndTombstonesKeepsTheLaws(chunk: Int) {
        let first = UInt64(chunk * Self.seedsPerChunk + 1)
        for seed in first..<first + UInt64(Self.seedsPerChunk) {
            let violations = Simulation(seed: seed, bringsTokens: true).run()
            guard violations.isEmpty else {
                Issue.record("seed \(seed): \(violations.prefix(3).joined(separator: "; "))")
                return
            }
        }
    }

    @Test(arguments: regressions) func seedThatFoundSomething(seed: UInt64) {
        #expect(Simulation(seed: seed).run() == [])
    }

    @Test(arguments: regressionsWithTokens) func seedWithTokensThatFoundSomething(seed: UInt64) {
        #expect(Simulation(seed: seed, bringsTokens: true).run() == [])
    }

    /// Prints every step of the seed that `CAUSEWAY_SIMULATION_SEED` names.
    @Test(.enabled(if: seedToTrace != nil)) func trace() throws {
        let simulation = Simulation(seed: try #require(Self.seedToTrace))
        print(simulation.swarm)
        simulation.trace = { print($0) }
        #expect(simulation.run() == [])
    }

    static let seedToTrace = ProcessInfo.processInfo.environment["CAUSEWAY_SIMULATION_SEED"].flatMap { UInt64($0) }
}
