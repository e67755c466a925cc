import Foundation

/// The seeds that a suite of simulations runs, as the environment sets them.
///
/// `CAUSEWAY_SIMULATION_SEEDS` is the number of seeds of each kind, rounded up to whole test cases,
/// `CAUSEWAY_SIMULATION_FIRST_SEED` the first one, `CAUSEWAY_SIMULATION_KIND` selects one kind, and
/// `CAUSEWAY_SIMULATION_SEED` names the seed whose steps are printed.
public struct SimulationSeeds<Kind: RawRepresentable<String> & CaseIterable & Sendable>: Sendable {
    public let seedsPerKind: Int
    public let firstSeed: UInt64
    /// The number of seeds of one test case.
    public let seedsPerChunk: Int
    public let kinds: [Kind]
    /// The seed whose steps are printed; nil prints nothing.
    public let seedToTrace: UInt64?

    /// - Parameters:
    ///   - standardCount: the number of seeds of each kind, if the environment does not set
    ///     `CAUSEWAY_SIMULATION_SEEDS`.
    ///   - chunksMax: the number of test cases of a kind, approximately, if there are many seeds. With few seeds, a
    ///     test case has 50 seeds, and there are fewer cases.
    public init(standardCount: Int, chunksMax: Int = 200) {
        let environment = ProcessInfo.processInfo.environment
        seedsPerKind = environment["CAUSEWAY_SIMULATION_SEEDS"].flatMap { Int($0) } ?? standardCount
        firstSeed = environment["CAUSEWAY_SIMULATION_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
        seedsPerChunk = max(50, seedsPerKind / chunksMax)
        let kind = environment["CAUSEWAY_SIMULATION_KIND"].flatMap { Kind(rawValue: $0) }
        kinds = kind.map { [$0] } ?? Array(Kind.allCases)
        seedToTrace = environment["CAUSEWAY_SIMULATION_SEED"].flatMap { UInt64($0) }
    }

    public var chunks: Range<Int> { 0..<(seedsPerKind + seedsPerChunk - 1) / seedsPerChunk }

    public func seeds(ofChunk chunk: Int) -> Range<UInt64> {
        let start = firstSeed + UInt64(chunk * seedsPerChunk)
        return start..<start + UInt64(seedsPerChunk)
    }

    /// Returns the message for a seed that violates invariants; nil without violations.
    public static func violationReport(_ kind: Kind, _ seed: UInt64, _ violations: [String]) -> String? {
        violations.isEmpty ? nil : "\(kind.rawValue) \(seed): \(violations.prefix(3).joined(separator: "; "))"
    }
}
