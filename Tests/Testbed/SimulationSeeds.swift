import Foundation

/// The seeds that a suite of simulations runs. The suite defines kinds of simulations, and runs each kind with the same
/// seeds. These environment variables change what is run:
///
/// - `CAUSEWAY_SIMULATION_SEEDS`: the number of seeds of each kind. It is rounded up to full chunks.
/// - `CAUSEWAY_SIMULATION_FIRST_SEED`: the first seed.
/// - `CAUSEWAY_SIMULATION_KIND`: the only kind that is run.
/// - `CAUSEWAY_SIMULATION_SEED`: the seed whose steps are printed.
public struct SimulationSeeds<Kind: RawRepresentable<String> & CaseIterable & Sendable>: Sendable {
    public let seedCountPerKind: Int
    public let firstSeed: UInt64
    /// The number of seeds of one chunk. A chunk is one test case.
    public let seedCountPerChunk: Int
    public let kinds: [Kind]
    /// The seed whose steps are printed; nil prints nothing.
    public let seedToTrace: UInt64?

    /// - Parameters:
    ///   - defaultSeedCountPerKind: the number of seeds of each kind, if the environment does not set
    ///     `CAUSEWAY_SIMULATION_SEEDS`.
    ///   - chunksMax: about the maximum number of chunks of a kind. A chunk has at least 50 seeds, so few seeds give
    ///     fewer chunks.
    public init(defaultSeedCountPerKind: Int, chunksMax: Int = 200) {
        let environment = ProcessInfo.processInfo.environment
        seedCountPerKind = environment["CAUSEWAY_SIMULATION_SEEDS"].flatMap { Int($0) } ?? defaultSeedCountPerKind
        firstSeed = environment["CAUSEWAY_SIMULATION_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
        seedCountPerChunk = max(50, seedCountPerKind / chunksMax)
        let kind = environment["CAUSEWAY_SIMULATION_KIND"].flatMap { Kind(rawValue: $0) }
        kinds = kind.map { [$0] } ?? Array(Kind.allCases)
        seedToTrace = environment["CAUSEWAY_SIMULATION_SEED"].flatMap { UInt64($0) }
    }

    public var chunks: Range<Int> { 0..<(seedCountPerKind + seedCountPerChunk - 1) / seedCountPerChunk }

    public func seeds(ofChunk chunk: Int) -> Range<UInt64> {
        let start = firstSeed + UInt64(chunk * seedCountPerChunk)
        return start..<start + UInt64(seedCountPerChunk)
    }

    /// Returns the message for a seed that violates invariants; nil without violations.
    public static func violationReport(_ kind: Kind, _ seed: UInt64, _ violations: [String]) -> String? {
        violations.isEmpty ? nil : "\(kind.rawValue) \(seed): \(violations.prefix(3).joined(separator: "; "))"
    }
}
