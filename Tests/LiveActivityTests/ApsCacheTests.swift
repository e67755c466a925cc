import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import LiveActivity

/// The decoder remembers the last `aps` dictionary. This must never change the result of another command.
@Suite("Apple's dictionary, repeated", .ownThread)
struct ApsCacheTests {
    @Test func `Every command has the same result alone and after any other`() {
        var mutator = JSONMutator(random: SplitMix64(seed: 5), originals: DifferentialTests.seeds)
        var cache = ApsCache()
        var recalledCount = 0
        for round in 0..<20_000 {
            // Mutated and valid texts alternate. Each text is read twice, the second time with its dictionary at a
            // later position. The decoder may remember the dictionary from the first reading.
            let text = round % 2 == 0 ? mutator.next() : mutator.originals[round / 2 % mutator.originals.count]
            for bytes in [text, Self.moved(text)] {
                let record = Record(bytes)
                if Self.isRecalled(record, cache) { recalledCount += 1 }
                let decodedAlone = Result { () throws(Fault) in try record.command() }
                let decodedWithCache = Result { () throws(Fault) in try Command.decode(record.bytes, recalling: &cache)
                }
                #expect(
                    String(describing: decodedAlone) == String(describing: decodedWithCache),
                    "\(String(decoding: bytes, as: UTF8.self))"
                )
            }
        }
        #expect(recalledCount > 5_000, "many dictionaries come from the cache")
    }

    @Test func `A dictionary is recalled at another place, and only as a whole`() throws {
        var cache = ApsCache()
        let first = Record(RecordText.update.text)
        let command = try Command.decode(first.bytes, recalling: &cache)
        let aps = String(decoding: command.aps.bytes(in: first.bytes), as: UTF8.self)

        let isRecalled = Self.recalls(aps, at: 0, cache)
        #expect(isRecalled)
        let isRecalledElsewhere = Self.recalls("   \(aps)}", at: 3, cache)
        #expect(isRecalledElsewhere)
        let isRecalledInPart = Self.recalls(String(aps.dropLast()), at: 0, cache)
        #expect(!isRecalledInPart)
        for change in aps.indices {
            var changedAps = aps
            changedAps.replaceSubrange(change...change, with: "~")
            let isRecalled = Self.recalls(changedAps, at: 0, cache)
            #expect(!isRecalled)
        }
    }

    @Test func `A dictionary that is invalid, or larger than a body, is not remembered`() throws {
        var cache = ApsCache()
        let state = #"{"a":"\#(String(repeating: "x", count: Limits.bodyBytesMax))"}"#
        for text in [RecordText.update.with("aps.content-state", state), .update.with("aps.event", "7")] {
            let record = Record(text.text)
            do throws(Fault) {
                _ = try Command.decode(record.bytes, recalling: &cache)
                Issue.record("it is taken")
            } catch {
                let isRecalled = Self.isRecalled(record, cache)
                #expect(!isRecalled)
            }
        }
    }

    /// Returns the record with its dictionary at a later position.
    private static func moved(_ text: [UInt8]) -> [UInt8] {
        guard let brace = text.firstIndex(of: UInt8(ascii: "{")) else { return text }
        return text[...brace] + Array("  \n".utf8) + text[(brace + 1)...]
    }

    private static func isRecalled(_ record: Record, _ cache: borrowing ApsCache) -> Bool {
        let text = String(decoding: record.bytes, as: UTF8.self)
        guard let place = text.utf8.firstRange(of: #""aps":"#.utf8)?.upperBound else { return false }
        return recalls(text, at: text.utf8.distance(from: text.utf8.startIndex, to: place), cache)
    }

    private static func recalls(_ text: String, at position: Int, _ cache: borrowing ApsCache) -> Bool {
        let record = Record(text)
        guard let text = try? JSONText(record.bytes) else { return false }
        var command = Command.blank
        var keys = ApsKeys()
        return cache.copyIfRepeated(text, position, into: &command, &keys) != nil
    }
}
