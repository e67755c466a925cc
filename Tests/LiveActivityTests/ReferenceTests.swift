import Documents
import Foundation
import LiveActivity
import RecordTestbed
import Testing
import Yams

@testable import RecordReference

@Suite("The reference of records")
struct ReferenceTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test(arguments: RecordFormat.all.map(\.name))
    func `The reference has examples that its schemas and the decoders accept`(name: String) throws {
        let format = try #require(RecordFormat.all.first { $0.name == name })
        let schema = try SchemaValidator(format.schema)
        for variant in format.variants {
            for example in [variant.example] + variant.moreExamples.map(\.record) {
                let value = try #require(FoundationValue(Array(example.utf8)), "\(example)")
                #expect(try schema.accepts(value), "\(example)")
            }
            switch name {
            case "command": _ = try Record(variant.example).command()
            case "registration": _ = try Record(variant.example).registration()
            default: break
            }
        }
    }

    @Test func `The reference writes JSON and YAML that say the same`() throws {
        for format in RecordFormat.all {
            _ = try JSONSerialization.jsonObject(with: Data(format.schema.json.utf8))
            // JSON is also YAML, so one parser reads both.
            let json = try #require(try Yams.load(yaml: format.schema.json) as? [String: Any])
            let yaml = try #require(try Yams.load(yaml: format.schema.yaml) as? [String: Any])
            #expect(NSDictionary(dictionary: json) == NSDictionary(dictionary: yaml), "\(format.name)")
        }
    }

    @Test func `The reference has an AsyncAPI document whose references exist`() throws {
        let file = try #require(ReferenceFile.all(version: "1.2.3").first { $0.path == AsyncAPIFile.path })
        let document = try #require(try Yams.load(yaml: file.text) as? [String: Any])
        #expect(document["asyncapi"] as? String == "3.0.0")
        #expect((document["info"] as? [String: Any])?["version"] as? String == "1.2.3")
        var referenceCount = 0
        for reference in Self.references(in: document) {
            referenceCount += 1
            guard reference.hasPrefix("#/") else {
                let place = Self.repository.appending(path: "Config").appending(path: reference)
                #expect(FileManager.default.fileExists(atPath: place.path), "\(reference)")
                continue
            }
            let target = reference.split(separator: "/").dropFirst()
                .reduce(document as Any?) { object, key in (object as? [String: Any])?[String(key)] }
            #expect(target != nil, "\(reference)")
        }
        // Each of the six topics has three references. All but the topic of dead letters also refer to a schema.
        #expect(referenceCount == 6 * 3 + 5)
    }

    private static func references(in value: Any) -> [String] {
        switch value {
        case let object as [String: Any]:
            object.flatMap { key, value in key == "$ref" ? [value as? String ?? ""] : references(in: value) }
        case let array as [Any]: array.flatMap { references(in: $0) }
        default: []
        }
    }

    /// Returns the paths of all keys in a JSON object.
    static func paths(_ object: [String: Any], _ prefix: String = "") -> Set<String> {
        Set(
            object.flatMap { key, value -> [String] in
                [prefix + key] + ((value as? [String: Any]).map { paths($0, "\(prefix)\(key).") } ?? [])
            }
        )
    }

    /// Fails the test unless the records have exactly the described keys: `full` all of them, `least` the
    /// required ones.
    private func expect(_ format: RecordFormat, _ variant: String, full: [[String: Any]], least: [String: Any]) throws {
        let shape = try #require(format.variants.first { $0.name == variant }).shape
        let described = shape.fieldPaths()
        #expect(Set(full.flatMap { Self.paths($0) }) == Set(described.map(\.path)))
        #expect(Self.paths(least) == Set(described.filter(\.isRequired).map(\.path)))
        let schema = try SchemaValidator(format.schema)
        for object in full + [least] {
            let value = try #require(FoundationValue(JSONSerialization.data(withJSONObject: object)))
            #expect(try schema.accepts(value), "\(object)")
        }
    }

    @Test func `The reference has exactly the fields of a command's result`() throws {
        let (full, least) = try withTexts(["id", "com.example", "m1", "Y2g=", "t", "slow"]) { texts in
            var result = ResultRecord(outcome: .invalid, sourceTopic: texts[4]!, sourcePartition: 0, sourceOffset: 7)
            let leastObject = try writtenObject { result.write(to: &$0) }
            result.commandIdentifier = texts[0]
            (result.app, result.activity, result.audience, result.device) = (texts[1], texts[2], texts[2], texts[2])
            result.channel = (texts[3]!, .sandbox)
            (result.supersededCount, result.status, result.reason) = (1, 410, texts[5])
            result.isLifetimeCommand = true
            (result.apnsId, result.priority, result.isDemoted, result.budgetLeft) = ((1, 2), 5, true, 0)
            result.droppedFieldNames = texts[5]!
            (result.policy, result.attemptCount, result.sentTimestamp) = (texts[5], 2, 1_790_000_000)
            (result.recordTimestampMilliseconds, result.receivedAtMilliseconds) = (1, 2)
            result.admittedAtMilliseconds = 3
            (result.sentAtMilliseconds, result.responseAtMilliseconds) = (4, 5)
            return (try writtenObject { result.write(to: &$0) }, leastObject)
        }
        try expect(.result, "commandResult", full: [full], least: least)
    }

    private func withCommandReference<Value>(audience: String?, _ body: (AudienceCommandReference) throws -> Value)
        throws -> Value
    {
        try withTexts(["id", "com.example", audience, "t"]) { texts in
            try body(
                AudienceCommandReference(
                    identifier: texts[0],
                    app: #require(texts[1]),
                    audience: texts[2],
                    sourceTopic: #require(texts[3]),
                    sourcePartition: 3,
                    sourceOffset: 17
                )
            )
        }
    }

    private static var oneOfEachOutcome: MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        for outcome in MemberOutcome.allCases { counts[outcome] = 1 }
        return counts
    }

    private static let responseTimes = ResponseTimes(firstResponseAtMilliseconds: 1, lastResponseAtMilliseconds: 2)

    @Test func `The reference has exactly the fields of the results of audiences`() throws {
        let range = try #require(SegmentRange(index: 3, rangeCount: 16))
        let dropped = Record("lineups")
        try withCommandReference(audience: "m1") { reference in
            func record(_ counts: MemberOutcomeCounts, _ times: ResponseTimes) throws -> [String: Any] {
                try writtenObject {
                    RangeResultRecord(command: reference, range: range, memberCounts: counts, times: times)
                        .write(to: &$0)
                }
            }
            try expect(
                .result,
                "rangeResult",
                full: [record(Self.oneOfEachOutcome, Self.responseTimes)],
                least: record(MemberOutcomeCounts(), ResponseTimes())
            )
            var result = AudienceResultRecord(
                command: reference,
                memberCounts: MemberOutcomeCounts(),
                times: ResponseTimes(),
                timestamp: 1_790_000_000,
                rangeCount: 256
            )
            let least = try writtenObject { result.write(to: &$0) }
            (result.memberCounts, result.broadcastCounts) = (Self.oneOfEachOutcome, Self.oneOfEachOutcome)
            result.times = Self.responseTimes
            (result.channelAbsence, result.isDemoted, result.wasAlertRemovedByAge) = (.refused, true, true)
            (result.recordTimestampMilliseconds, result.admittedAtMilliseconds, result.droppedFieldNames) = (
                1, 2, dropped.bytes
            )
            try expect(.result, "audienceResult", full: [writtenObject { result.write(to: &$0) }], least: least)
        }
    }

    @Test func `The reference has exactly the fields of a broadcast's result`() throws {
        let identifier = try #require(ChannelIdentifier("Y2g="))
        let channel = AudienceChannel(environment: .sandbox, storage: .newest, identifier: identifier)
        func record(_ reference: AudienceCommandReference, isFull: Bool) throws -> [String: Any] {
            try withTexts([isFull ? "BadChannelId" : ""]) { texts in
                var result = BroadcastResultRecord(
                    command: reference,
                    channel: channel,
                    outcome: .failed,
                    reason: texts[0]!,
                    times: isFull ? Self.responseTimes : ResponseTimes()
                )
                if isFull { (result.status, result.advice, result.droppedFieldNames) = (400, "create one", texts[0]!) }
                return try writtenObject { result.write(to: &$0) }
            }
        }
        try expect(
            .result,
            "broadcastResult",
            full: [withCommandReference(audience: "m1") { try record($0, isFull: true) }],
            least: withCommandReference(audience: nil) { try record($0, isFull: false) }
        )
    }

    @Test func `The reference has exactly the fields of an invalidation`() throws {
        let records = try [true, false]
            .map { isOfActivity in
                try withTexts(["com.example", "m1", RecordText.token, "Unregistered"]) { texts in
                    let invalidation = InvalidationRecord(
                        app: texts[0]!,
                        address: isOfActivity ? .activity(texts[1]!) : .device(texts[1]!),
                        token: texts[2]!,
                        environment: .sandbox,
                        reason: texts[3]!,
                        invalidAtMilliseconds: 1_790_000_000_123
                    )
                    return try writtenObject { invalidation.write(to: &$0) }
                }
            }
        let described = RecordFormat.invalidation.variants[0].shape.fieldPaths()
        #expect(Set(records.flatMap { Self.paths($0) }) == Set(described.map(\.path)))
        let schema = try SchemaValidator(RecordFormat.invalidation.schema)
        for record in records {
            #expect(Self.paths(record).isSuperset(of: described.filter(\.isRequired).map(\.path)))
            #expect(try schema.accepts(#require(FoundationValue(JSONSerialization.data(withJSONObject: record)))))
        }
    }

    @Test func `The reference lists every reason that the cores give`() throws {
        let folders = ["Delivery", "Audiences"].map { Self.repository.appending(path: "Sources").appending(path: $0) }
        let sources =
            folders.flatMap { folder in
                (FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects ?? [])
                    .compactMap { file in (file as? URL).flatMap { try? String(contentsOf: $0, encoding: .utf8) } }
            }
            .joined()
        let literal = #/(?:reason: |code: |setReason\(|StaticString \{ |\? |: )"([A-Za-z0-9 ]+)"/#
        let fromCalls = #/(?:reason: |code: |setReason\()"([A-Za-z0-9 ]+)"/#
        let listed = Set(ReasonReference.all.map(\.name))
        let faults = Set(FaultCode.allCases.map(\.name.description))
        let written = Set(sources.matches(of: fromCalls).map { String($0.1) })
        #expect(written.count > 8)
        #expect(written.subtracting(faults).isSubset(of: listed))
        let texts = Set(sources.matches(of: literal).map { String($0.1) })
        #expect(listed.isSubset(of: texts), "\(listed.subtracting(texts))")
    }
}
