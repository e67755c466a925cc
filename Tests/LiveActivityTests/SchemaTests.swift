import Foundation
import LiveActivity
import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import RecordReference

/// The results of the decoder and of the schema on one record.
private struct ValidationResults {
    /// The decoder's fault; nil if it accepts the record.
    var fault: Fault?
    /// The schema's verdict; nil if Foundation cannot read the text, so that there is no value to check.
    var isValid: Bool?
}

@Suite("The schemas, held against the decoders", .ownThread)
struct SchemaTests {
    private let command: SchemaValidator
    private let registration: SchemaValidator

    init() throws {
        command = try SchemaValidator(RecordFormat.command.schema)
        registration = try SchemaValidator(RecordFormat.registration.schema)
    }

    private func results(command text: [UInt8]) throws -> ValidationResults {
        let record = Record(text)
        var results = ValidationResults()
        do throws(Fault) { _ = try record.command() } catch { results.fault = error }
        results.isValid = try FoundationValue(text).map { try command.accepts($0) }
        return results
    }

    private func results(registration text: [UInt8]) throws -> ValidationResults {
        let record = Record(text)
        var results = ValidationResults()
        do throws(Fault) { _ = try record.registration() } catch { results.fault = error }
        results.isValid = try FoundationValue(text).map { try registration.accepts($0) }
        return results
    }

    /// Fails the test if the decoder and the schema disagree, and no known difference explains this.
    private func compare(_ results: ValidationResults, _ text: [UInt8]) {
        switch (results.fault, results.isValid) {
        case (nil, true), (_?, false), (_?, nil): return
        case (nil, nil) where FoundationDeviation.hasNumberBeyondDouble(text): return
        case (let fault?, true) where RuleBeyondSchema.explaining(fault, text) != nil: return
        default: Issue.record("\(String(describing: results.fault)): \(String(decoding: text, as: UTF8.self))")
        }
    }

    @Test func `Schemas and decoders agree on the corpus`() throws {
        for entry in Corpus.commands { compare(try results(command: entry.bytes), entry.bytes) }
        for entry in Corpus.registrations { compare(try results(registration: entry.bytes), entry.bytes) }
    }

    @Test func `Schemas and decoders agree on 10,000 mutated commands`() throws {
        let seeds =
            DifferentialTests.seeds
            + ([
                .toChannel, .toAudience.with("channel", "true"), .start.with("aps.input-push-channel", #""Y2g=""#),
                .update.with("policy", #""slow-1""#), .update.with("payload", #"{"a":[1,{"b":null}]}"#),
            ] as [RecordText])
            .map { Array($0.text.utf8) }
        var mutator = JSONMutator(random: SplitMix64(seed: 11), originals: seeds)
        var (acceptedCount, refusedCount) = (0, 0)
        for _ in 0..<10_000 {
            let text = mutator.next()
            let results = try results(command: text)
            compare(results, text)
            if results.fault == nil { acceptedCount += 1 }
            if results.isValid == false { refusedCount += 1 }
        }
        #expect(acceptedCount > 1_000, "enough mutated commands stay valid")
        #expect(refusedCount > 1_000, "the schema refuses enough of them")
    }

    @Test func `Schemas and decoders agree on 10,000 mutated registrations`() throws {
        let seeds =
            ([
                RecordText.registration, .registration.with("shows", "1790000000"), .pushToStart,
                .pushToStart.with("channels", "true").with("audiences", #"["a","é"]"#),
            ] as [RecordText])
            .map { Array($0.text.utf8) }
        var mutator = JSONMutator(random: SplitMix64(seed: 12), originals: seeds)
        var (acceptedCount, refusedCount) = (0, 0)
        for _ in 0..<10_000 {
            let text = mutator.next()
            let results = try results(registration: text)
            compare(results, text)
            if results.fault == nil { acceptedCount += 1 }
            if results.isValid == false { refusedCount += 1 }
        }
        #expect(acceptedCount > 1_000 && refusedCount > 1_000)
    }

    /// Each bit of a number selects a field, so the numbers give every combination of fields. Combinations with two
    /// fields of the same key are left out. The decoder and the schema must agree on each combination, without the
    /// known differences that `compare` accepts.
    @Test(arguments: ["start", "update", "end"])
    func `Schemas and decoders agree on every combination of addresses`(event: String) throws {
        let members: [(key: String, value: String)] = [
            ("activity", #""a{device}""#), ("audience", #""a""#), ("device", #""d""#),
            ("token", "\"\(RecordText.token)\""),
            ("environment", #""sandbox""#), ("channel", "true"), ("channel", #""Y2g=""#), ("activity", #""a""#),
        ]
        let aps = event == "start" ? RecordText.startAps : event == "end" ? RecordText.endAps : RecordText.updateAps
        var acceptedCount = 0
        let (bothActivities, bothChannels) = (0b1000_0001, 0b0110_0000)
        for bits in 0..<1 << members.count
        where bits & bothActivities != bothActivities && bits & bothChannels != bothChannels {
            let record = RecordText([("app", #""a.b""#), ("aps", .object(aps))]).with(members, selectedBy: bits)
            let results = try results(command: Array(record.text.utf8))
            #expect((results.fault == nil) == results.isValid, "\(record.text)")
            if results.fault == nil { acceptedCount += 1 }
        }
        #expect(acceptedCount > 2)
    }

    @Test(arguments: ["start", "update", "end"])
    func `Schemas and decoders agree on every combination of Apple's keys`(event: String) throws {
        let members: [(key: String, value: String)] = [
            ("content-state", "{}"), ("attributes-type", #""T""#), ("attributes", "{}"), ("dismissal-date", "0"),
            ("input-push-token", "1"), ("input-push-channel", #""c""#),
            ("alert", #"{"title":"t","body":"b"}"#), ("alert", #"{"title":"","body":"b"}"#),
            ("alert", #"{"title":"t"}"#),
            ("alert", #"{"title":{"loc-key":"k"},"body":{"loc-key":""}}"#),
            ("alert", #"{"title":{"loc-key":"k"},"body":{"loc-key":"b","loc-args":["x"],"new":1}}"#),
        ]
        let whole = event == "start" ? RecordText.start : event == "end" ? RecordText.end : RecordText.update
        var acceptedCount = 0
        let firstAlertIndex = 6
        for bits in 0..<1 << members.count where (bits >> firstAlertIndex).nonzeroBitCount <= 1 {
            let aps = RecordText([("event", "\"\(event)\""), ("timestamp", "1790000000")])
                .with(members, selectedBy: bits)
            let record = whole.with("aps", aps.text)
            let results = try results(command: Array(record.text.utf8))
            #expect((results.fault == nil) == results.isValid, "\(record.text)")
            if results.fault == nil { acceptedCount += 1 }
        }
        #expect(acceptedCount > 2)
    }

    @Test func `Schemas and decoders agree on every combination of a registration's keys`() throws {
        let members: [(key: String, value: String)] = [
            ("app", #""a.b""#), ("environment", #""sandbox""#), ("registeredAt", "1790000000123"),
            ("token", #""00ff00ff""#), ("activity", #""a""#), ("device", #""d""#), ("attributesType", #""T""#),
            ("frequentUpdates", "true"), ("shows", "1790000000"), ("channels", "true"),
            ("audiences", #"["1","2","3","4","5","6","7","8"]"#), ("unknown", "1"),
        ]
        var acceptedCount = 0
        for bits in 0..<1 << members.count {
            let record = RecordText([]).with(members, selectedBy: bits)
            let results = try results(registration: Array(record.text.utf8))
            #expect((results.fault == nil) == results.isValid, "\(record.text)")
            if results.fault == nil { acceptedCount += 1 }
        }
        #expect(acceptedCount > 8)
    }

    /// Every field gets values on both sides of the fields' bounds, and values of every type.
    @Test func `Schemas and decoders agree on values at the bounds`() throws {
        let values =
            [
                "null", "true", "0", "1", "5", "6", "10", "-1", "1.5", "999999999", "1000000000", "9999999999",
                "10000000000",
                "999999999999", "1000000000000", "9999999999999", "10000000000000", "18446744073709551615",
                "18446744073709551616", "{}", "[]", "[1]", #"["a"]"#, #"[""]"#, #""""#, #""a""#, #""a b""#, #""a\nb""#,
                #""a\n""#,
                #""0aB""#, #""0aBc00""#, #""0aBc0011""#, #""0aBc001x""#, #""AAA=""#, #""AA==""#, #""A===""#, #""A=AA""#,
                #""AAAA""#,
                #""start""#, #""end""#, #""production""#, #""\u0085""#, #"{"timestamp":1790000000}"#,
                #"{"sequence":1}"#,
                #"{"timestamp":1790000000,"x":1}"#, #"["1","2","3","4","5","6","7","8","9"]"#, #"{"aps":1}"#,
            ] + [4, 63, 64, 65, 68, 200, 201, 202, 256, 257].map { "\"" + String(repeating: "a", count: $0) + "\"" }
        let commands: [RecordText] = [
            .update, .start, .end, .toAudience, .startOfAudience, .toChannel, .update.with("policy", #""p""#),
            .toAudience.with("channel", "true"), .start.with("aps.input-push-token", "1"),
            .start.with("aps.input-push-channel", #""c""#),
        ]
        for (path, _) in RecordFormat.command.variants[0].shape.fieldPaths() {
            for value in values {
                for record in commands {
                    let text = Array(record.with(path, value).text.utf8)
                    compare(try results(command: text), text)
                }
            }
        }
        for (path, _) in RecordFormat.registration.variants[0].shape.fieldPaths() {
            for value in values {
                for record in [RecordText.registration, .pushToStart] {
                    let text = Array(record.with(path, value).text.utf8)
                    compare(try results(registration: text), text)
                }
            }
        }
    }

    @Test func `The schemas name every field that the decoders read, and no other`() {
        let described = Set(
            [RecordFormat.command, .registration].flatMap { $0.variants[0].shape.fieldPaths().map(\.path) }
        )
        // No producer writes these fields: the record itself, two keys that only Causeway writes, and the body.
        let others: Set<Field> = [.record, .alertTimestamp, .alertSequence, .body]
        let read = Set(Field.allCases.filter { !others.contains($0) }.map(\.path.description))
        #expect(described == read)
    }
}

extension RecordText {
    /// Returns a copy with those of the members whose bits are set. The first member has the lowest bit.
    fileprivate func with(_ members: [(key: String, value: String)], selectedBy bits: Int) -> RecordText {
        members.indices.filter { bits >> $0 & 1 == 1 }
            .reduce(self) { record, index in record.with(members[index].key, members[index].value) }
    }
}
