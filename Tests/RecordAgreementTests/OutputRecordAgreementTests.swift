import Documents
import Foundation
import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import RecordReference

/// Compares the records that workers write with their schemas and with the library that reads them.
///
/// The schema accepts what the worker writes, and the library keeps all of it. The library reads every record that the
/// schema accepts, unless the record mixes the fields of two kinds of results. It also reads other values of the right
/// type, because a later worker may write new outcomes and reasons. It reads null as an absent field.
@Suite("The readers of the worker's records agree", .ownThread)
struct OutputRecordAgreementTests {
    enum Topic: String, CaseIterable, CustomTestStringConvertible {
        case results, invalidations, channels

        var format: RecordFormat {
            switch self {
            case .results: .result
            case .invalidations: .invalidation
            case .channels: .channel
            }
        }

        var testDescription: String { rawValue }

        func write(_ writer: inout RandomRecordWriter) -> [UInt8] {
            switch self {
            case .results: writer.makeResult()
            case .invalidations: writer.makeInvalidation()
            case .channels: writer.makeChannel()
            }
        }
    }

    private static let writtenRecordCount = 2_000
    private static let mutatedRecordCount = 10_000

    @Test(arguments: Topic.allCases)
    func `The worker's records are valid, and the library reads all of their content`(topic: Topic) throws {
        let schema = try SchemaValidator(topic.format.schema)
        var writer = RandomRecordWriter(seed: 31)
        for _ in 0..<Self.writtenRecordCount {
            let text = topic.write(&writer)
            let value = try #require(FoundationValue(text), "\(utf8Text(text))")
            #expect(try schema.accepts(value), "\(utf8Text(text))")
            #expect(try FoundationValue(ServerLibrary.rewrite(Data(text), topic)) == value, "\(utf8Text(text))")
        }
    }

    @Test(arguments: Topic.allCases)
    func `10,000 mutated records are read if they are valid`(topic: Topic) throws {
        let schema = try SchemaValidator(topic.format.schema)
        let typesOnlySchema = try SchemaValidator(topic.format.schema.withoutValueRules)
        var writer = RandomRecordWriter(seed: 32)
        let seeds = (0..<200).map { _ in topic.write(&writer) }
        var mutator = JSONMutator(random: SplitMix64(seed: 33), originals: seeds)
        var (validCount, readCount) = (0, 0)
        for _ in 0..<Self.mutatedRecordCount {
            let text = mutator.next()
            // The schema checks the value that Foundation reads. So it does not check a text that Foundation refuses.
            guard let value = FoundationValue(text) else { continue }
            let isValid = try schema.accepts(value)
            let rewritten = try? ServerLibrary.rewrite(Data(text), topic)
            if isValid { validCount += 1 }
            if rewritten != nil { readCount += 1 }
            if let rewritten {
                #expect(try typesOnlySchema.accepts(value.withoutNulls), "the library reads \(utf8Text(text))")
                // Unknown keys may be lost, and a `Date` cannot hold the milliseconds of a distant year.
                let isKept = try #require(FoundationValue(rewritten)).isPart(of: value) || hasDistantTime(text)
                #expect(isKept || !isValid, "\(utf8Text(text)) is read as \(utf8Text(Array(rewritten)))")
            } else {
                #expect(!isValid || hasFieldOfOtherResultKind(value), "the library does not read \(utf8Text(text))")
            }
        }
        #expect(
            validCount > 1_000 && readCount > validCount && readCount < Self.mutatedRecordCount - 1_000,
            "\(validCount) valid, \(readCount) read"
        )
    }

    /// Whether a broadcast's result has a field that only another kind of result has. No worker writes such a record.
    private func hasFieldOfOtherResultKind(_ value: FoundationValue) -> Bool {
        guard let members = value.object, members["environment"] != nil else { return false }
        return members["segments"] != nil || members["ranges"] != nil
    }

    /// Whether a text has an integer of more than 15 digits.
    private func hasDistantTime(_ text: [UInt8]) -> Bool {
        text.split { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.contains { $0.count > 15 }
    }

    private func utf8Text(_ text: [UInt8]) -> String { String(decoding: text, as: UTF8.self) }
}

extension DocumentValue {
    /// The schema without rules about values. The fields' names and types stay, and which fields are required.
    fileprivate var withoutValueRules: DocumentValue {
        switch self {
        case .object(let members):
            .object(members.flatMap(\.withoutValueRules))
        case .array(let elements): .array(elements.map(\.withoutValueRules))
        case .null, .text, .number, .boolean: self
        }
    }
}

extension DocumentValue.Member {
    fileprivate var withoutValueRules: [DocumentValue.Member] {
        switch (name, value) {
        case ("oneOf", _): [.init("anyOf", value.withoutValueRules)]
        case ("enum", .array(let values)):
            if case .text = values.first { [.init("type", "string")] } else { [.init("type", "number")] }
        case ("type", "integer"): [.init("type", "number")]
        case ("properties", .object(let fields)):
            // The keys inside `properties` are names of fields, even if one is spelled like a keyword of the
            // schema.
            [.init(name, .object(fields.map { .init($0.name, $0.value.withoutValueRules) }))]
        case ("definitions", .object(let shapes)):
            [.init(name, .object(shapes.map { .init($0.name, $0.value.withoutValueRules) }))]
        case ("allOf", _), ("minimum", _), ("maximum", _), ("minLength", _), ("maxLength", _), ("pattern", _),
            ("not", _),
            ("minItems", _), ("maxItems", _):
            []
        default: [.init(name, value.withoutValueRules)]
        }
    }
}

extension FoundationValue {
    fileprivate var withoutNulls: FoundationValue {
        guard case .object(let members) = self else { return self }
        return .object(members.filter { $0.value != .null }.mapValues(\.withoutNulls))
    }

    /// Whether the other value has all fields of this one, with the same values.
    fileprivate func isPart(of other: FoundationValue) -> Bool {
        guard case .object(let ownMembers) = self, case .object(let otherMembers) = other else { return self == other }
        return ownMembers.allSatisfy { key, value in otherMembers[key].map { value.isPart(of: $0) } ?? false }
    }
}
