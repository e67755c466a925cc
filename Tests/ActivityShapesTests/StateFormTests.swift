import Foundation
import LiveActivity
import Numbers
import Testbed
import Testing

/// A state in the form of one that fits is judged like any other.
@Suite struct StateFormTests {
    private static func matches(_ forms: inout StateForms, _ state: String, _ contract: ContractImage) throws -> Bool {
        try JudgesTests.record(state)
            .withUnsafeBytes { bytes in
                forms.match(try Command.decode(bytes), ofApp: 0, contract, in: bytes)
            }
    }

    /// Whether a walk finds that the state fits. Then its form is remembered.
    private static func fits(_ forms: inout StateForms, _ state: String, _ contract: ContractImage) throws -> Bool {
        try JudgesTests.record(state)
            .withUnsafeBytes { bytes in
                let command = try Command.decode(bytes)
                do throws(ContractMismatch) {
                    try forms.check(command, ofApp: 0, contract, in: bytes)
                    return true
                } catch {
                    return false
                }
            }
    }

    @Test(arguments: 1...4) func `What matches a form fits when it is walked`(seed: UInt64) throws {
        let contract = try JudgesTests.contract()
        defer { contract.deallocate() }
        let example = try JSONSerialization.jsonObject(with: JSONEncoder().encode(RideState()))
        var randomness = SplitMix64(seed: seed)
        var forms = StateForms(isNeeded: true)
        var last = JSONTree(example)
        var (matched, unmatched, refused) = (0, 0, 0)
        for _ in 0..<5_000 {
            // A change of the last state mostly has its form; a change of the example mostly has not.
            var tree = randomness.number(0...3) == 0 ? JSONTree(example) : last
            for _ in 0..<randomness.number(1...2) { tree = tree.mutated(&randomness) }
            guard case .object = tree, case let state = tree.text else { continue }
            let isMatched = try Self.matches(&forms, state, contract)
            var other = StateForms(isNeeded: true)
            let isFitting = try Self.fits(&other, state, contract)
            #expect(isFitting || !isMatched, "\(state)")
            if isMatched { matched += 1 } else if isFitting { unmatched += 1 } else { refused += 1 }
            if isFitting {
                last = tree
                if !isMatched { _ = try Self.fits(&forms, state, contract) }
            }
        }
        #expect(
            matched > 200 && unmatched > 200 && refused > 200,
            "\(matched) matched, \(unmatched) not, \(refused) refused"
        )
    }
}
