import Foundation
import LiveActivity
import Numbers
import Testbed
import Testing

/// The worker's check remembers the template of each accepted state: its keys in order. A later state with the same
/// keys in the same order is compared only with the template, not with the shapes. This shorter check must never accept
/// what the full check refuses.
@Suite struct StateTemplateTests {
    /// Whether the state matches one of the templates.
    private static func matches(_ templates: inout RecentStateTemplates, _ state: String) throws -> Bool {
        try DecodabilityTests.makeRecord(state)
            .withUnsafeBytes { bytes in
                var cache = ApsCache()
                let command = try Command.decodeIgnoringBodyLimit(bytes, recalling: &cache, &templates)
                let (isMatched, isOfOtherApp) = (
                    templates.hasMatched(command, ofApp: 0), templates.hasMatched(command, ofApp: 1)
                )
                #expect(templates.matchesAnyTemplate(command, ofApp: 0, in: bytes) == isMatched && !isOfOtherApp)
                return isMatched
            }
    }

    /// Whether the full check accepts the state. The check then remembers the state's template.
    private static func fits(_ templates: inout RecentStateTemplates, _ state: String, _ contract: UnmanagedContract)
        throws
        -> Bool
    {
        try DecodabilityTests.makeRecord(state)
            .withUnsafeBytes { bytes in
                let command = try Command.decode(bytes)
                do throws(ContractMismatch) {
                    try templates.checkAndRemember(command, ofApp: 0, contract, in: bytes)
                    return true
                } catch {
                    return false
                }
            }
    }

    @Test(arguments: 1...4) func `A state that matches a template passes the full check`(seed: UInt64) throws {
        let contract = try DecodabilityTests.makeContract()
        defer { contract.deallocate() }
        let example = try JSONSerialization.jsonObject(with: JSONEncoder().encode(RideState()))
        var random = SplitMix64(seed: seed)
        var templates = RecentStateTemplates(isNeeded: true)
        var acceptedTree = JSONTree(example)
        var (matchedCount, unmatchedCount, refusedCount) = (0, 0, 0)
        for _ in 0..<5_000 {
            // A change of the last accepted state usually keeps the template of that state. A change of the
            // example usually has another template.
            var tree = random.number(0...3) == 0 ? JSONTree(example) : acceptedTree
            for _ in 0..<random.number(1...2) { tree = tree.mutated(&random) }
            guard case .object = tree, case let state = tree.text else { continue }
            let isMatched = try Self.matches(&templates, state)
            var freshTemplates = RecentStateTemplates(isNeeded: true)
            let isFitting = try Self.fits(&freshTemplates, state, contract)
            #expect(isFitting || !isMatched, "\(state)")
            if isMatched { matchedCount += 1 } else if isFitting { unmatchedCount += 1 } else { refusedCount += 1 }
            if isFitting {
                acceptedTree = tree
                if !isMatched { _ = try Self.fits(&templates, state, contract) }
            }
        }
        #expect(
            matchedCount > 200 && unmatchedCount > 200 && refusedCount > 200,
            "\(matchedCount) matched, \(unmatchedCount) not, \(refusedCount) refused"
        )
    }

    /// Replaces, inserts or deletes bytes of a record whose state has a known template (its keys in order). The result
    /// need not be JSON.
    @Test(arguments: 1...4) func `Templates do not change what the decoder reads`(seed: UInt64) throws {
        let contract = try DecodabilityTests.makeContract()
        defer { contract.deallocate() }
        let example = DecodabilityTests.makeRecord(
            JSONTree(try JSONSerialization.jsonObject(with: JSONEncoder().encode(RideState()))).text
        )
        var random = SplitMix64(seed: seed)
        var templates = RecentStateTemplates(isNeeded: true)
        try example.withUnsafeBytes {
            try templates.checkAndRemember(try Command.decode($0), ofApp: 0, contract, in: $0)
        }
        var (matchedCount, unmatchedCount, refusedCount) = (0, 0, 0)
        for _ in 0..<20_000 {
            var record = example
            for _ in 0..<random.number(1...2) { Self.change(&record, &random) }
            let isMatched = record.withUnsafeBytes { bytes in
                var firstCache = ApsCache()
                var noTemplates = RecentStateTemplates(isNeeded: false)
                let resultWithoutTemplates = Result { () throws(Fault) in
                    try Command.decodeIgnoringBodyLimit(bytes, recalling: &firstCache, &noTemplates)
                }
                var secondCache = ApsCache()
                let resultWithTemplates = Result { () throws(Fault) in
                    try Command.decodeIgnoringBodyLimit(bytes, recalling: &secondCache, &templates)
                }
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(
                    String(describing: resultWithoutTemplates) == String(describing: resultWithTemplates),
                    "\(text)"
                )
                guard case .success(let command) = resultWithTemplates else {
                    refusedCount += 1
                    return false
                }
                let isMatched = templates.hasMatched(command, ofApp: 0)
                if isMatched { #expect(throws: Never.self, "\(text)") { try contract.check(command, in: bytes) } }
                return isMatched
            }
            if isMatched { matchedCount += 1 } else { unmatchedCount += 1 }
        }
        #expect(
            matchedCount > 1_000 && unmatchedCount > 1_000 && refusedCount > 1_000,
            "\(matchedCount) matched, \(unmatchedCount) not, \(refusedCount) refused"
        )
    }

    /// Pieces of numbers, texts and containers, so that many changes give another value of the same type.
    private static let pieces = [
        "0", "1", "9", "00", "-", ".", ".5", "e1", "E+", "\"", "\\", "\\n", "\\u00e9", "\\ud800", "é", "\u{1}", " ",
        "null", "nul", "true",
        "tru", "{}", "{", "}", "[]", "[", "]", ",", ":", "a", "\"a\"", "12345678901", "[1]", "{\"a\":1}",
    ]

    private static func change(_ record: inout [UInt8], _ random: inout SplitMix64) {
        let start = random.number(0...record.count - 1)
        let end = min(record.count, start + random.number(0...3))
        let piece = pieces[random.number(0...pieces.count - 1)]
        record.replaceSubrange(start..<end, with: random.number(0...3) == 0 ? [] : Array(piece.utf8))
    }

    /// A large value may repeat a key thousands of times. To learn the template of a value, the check compares
    /// each key with all earlier keys. For a large value this would take too long, so the check learns no
    /// template.
    @Test func `A value that is larger than any body has no template`() throws {
        let contract = try DecodabilityTests.makeContract()
        defer { contract.deallocate() }
        var templates = RecentStateTemplates(isNeeded: true)
        let state = String(decoding: try JSONEncoder().encode(RideState()), as: UTF8.self)
        let scores = try #require(state.firstMatch(of: /"scores":\{[^}]*\}/)).output
        #expect(try Self.fits(&templates, state, contract))
        func matchesTemplate(scoreCount: Int) throws -> Bool {
            let members = (0..<scoreCount).map { "\"\($0)\":1" }.joined(separator: ",")
            return try Self.matches(&templates, state.replacing(scores, with: "\"scores\":{\(members)}"))
        }
        #expect(try matchesTemplate(scoreCount: 500))
        #expect(try !matchesTemplate(scoreCount: 1_000))
    }
}
