import Foundation
import LiveActivity
import RecordTestbed
import Testing

/// Returns the writer's output, as Foundation reads it.
func writtenObject(_ write: (inout JSONWriter) -> Void) throws -> [String: Any] {
    var writer = JSONWriter(capacity: 1)
    write(&writer)
    let object = try JSONSerialization.jsonObject(with: Data(writer.bytes))
    return try #require(object as? [String: Any])
}

/// Calls the body with the bytes of each text; nil for an absent text.
func withTexts<Result>(
    _ texts: [String?],
    _ body: ([UnsafeRawBufferPointer?]) throws -> Result
) rethrows -> Result {
    let records = texts.map { text in text.map { Record($0) } }
    return try withExtendedLifetime(records) { try body(records.map { $0?.bytes }) }
}

@Suite("JSON writer")
struct JSONWriterTests {
    @Test func `The writer escapes any string, so that Foundation reads the same`() throws {
        let every = String(String.UnicodeScalarView((0..<0x3000).compactMap { Unicode.Scalar($0 as UInt32) }))
        for text in ["", "plain", "\"\\/", "\u{0}\u{1}\u{8}\t\n\u{B}\u{C}\r\u{1F}\u{7F}", "é€😀", every] {
            let record = Record(text)
            let object = try writtenObject { writer in
                writer.beginObject()
                writer.key("text")
                writer.string(record.bytes)
                writer.endObject()
            }
            #expect(object["text"] as? String == text)
        }
    }

    @Test func `The writer replaces bytes that are not UTF-8`() throws {
        for (bytes, text) in [
            ([0xFF], "\u{FFFD}"), ([0x61, 0xC0, 0x80, 0x62], "a\u{FFFD}\u{FFFD}b"), ([0xE2, 0x82], "\u{FFFD}\u{FFFD}"),
            ([0xED, 0xA0, 0x80], "\u{FFFD}\u{FFFD}\u{FFFD}"), ([0xE2, 0x82, 0xAC, 0xF0], "€\u{FFFD}"),
        ] as [([UInt8], String)] {
            let record = Record(bytes)
            let object = try writtenObject { writer in
                writer.beginObject()
                writer.key("text")
                writer.string(record.bytes)
                writer.endObject()
            }
            #expect(object["text"] as? String == text)
        }
    }

    @Test func `The writer writes integers up to their limits`() {
        for value in [Int64.min, -10, -1, 0, 1, 9, 10, 99, 100, Int64.max] {
            var writer = JSONWriter(capacity: 1)
            writer.integer(value)
            #expect(String(decoding: writer.bytes, as: UTF8.self) == String(value))
        }
        var writer = JSONWriter()
        writer.integer(UInt64.max)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == String(UInt64.max))
        var power: UInt64 = 1
        while true {
            for value in [power - 1, power, power + 1, power &* 7] {
                writer.reset()
                writer.integer(value)
                #expect(String(decoding: writer.bytes, as: UTF8.self) == String(value))
            }
            let (next, isOver) = power.multipliedReportingOverflow(by: 10)
            if isOver { break }
            power = next
        }
        for value in 0..<1_100 {
            writer.reset()
            writer.integer(UInt64(value))
            #expect(String(decoding: writer.bytes, as: UTF8.self) == String(value))
        }
        // The last eight digits of a large number are written as two groups of four.
        for four in 0..<10_000 as Range<UInt64> {
            let value = 1_790_000_000_000 + four * 10_000 + (9_999 - four)
            writer.reset()
            writer.integer(value)
            #expect(String(decoding: writer.bytes, as: UTF8.self) == String(value))
        }
    }

    @Test func `The writer escapes the necessary characters, at any position`() throws {
        for special in ["\"", "\\", "\u{0}", "\u{1F}", " ", "!", "#", "[", "]", "~", "\u{7F}", "\u{80}", "é", "😀"] {
            for length in 0..<20 {
                for place in 0...length {
                    let text =
                        String(repeating: "a", count: place) + special + String(repeating: "b", count: length - place)
                    let record = Record(text)
                    let object = try writtenObject { writer in
                        writer.beginObject()
                        writer.key("text")
                        writer.string(record.bytes)
                        writer.endObject()
                    }
                    #expect(object["text"] as? String == text)
                }
            }
        }
    }

    @Test func `The writer puts commas between members, and starts over after a reset`() {
        var writer = JSONWriter(capacity: 1)
        for _ in 0..<2 {
            writer.reset()
            writer.beginObject()
            writer.key("a")
            writer.beginObject()
            writer.endObject()
            writer.key("b")
            writer.beginObject()
            writer.key("c")
            writer.boolean(true)
            writer.key("d")
            writer.string("e")
            writer.endObject()
            writer.key("f")
            writer.integer(-7 as Int64)
            writer.endObject()
            #expect(String(decoding: writer.bytes, as: UTF8.self) == #"{"a":{},"b":{"c":true,"d":"e"},"f":-7}"#)
        }
    }
}

@Suite("Records that are written")
struct WrittenRecordTests {
    @Test func `A result is written with every field`() throws {
        let object = try withTexts([
            "id\"1", "com.example", "m1", "Unregistered", "causeway.commands", "slow", "lineups,a.b",
        ]) {
            texts in
            var result = ResultRecord(
                outcome: .unregistered,
                sourceTopic: texts[4]!,
                sourcePartition: 3,
                sourceOffset: 1_234_567_890_123
            )
            result.commandIdentifier = texts[0]
            result.app = texts[1]
            result.activity = texts[2]
            result.reason = texts[3]
            result.supersededCount = 12
            result.status = 410
            result.apnsId = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210)
            result.priority = 5
            result.isDemoted = true
            result.isLifetimeCommand = true
            result.budgetLeft = 0
            result.droppedFieldNames = texts[6]!
            result.policy = texts[5]
            result.attemptCount = 2
            result.sentTimestamp = 1_790_000_000
            result.recordTimestampMilliseconds = 1
            result.receivedAtMilliseconds = 2
            result.admittedAtMilliseconds = 3
            result.sentAtMilliseconds = 4
            result.responseAtMilliseconds = 5
            return try writtenObject { result.write(to: &$0) }
        }
        let expected: [String: Any] = [
            "command": "id\"1", "app": "com.example", "activity": "m1", "outcome": "unregistered", "superseded": 12,
            "status": 410, "reason": "Unregistered", "apnsId": "01234567-89ab-cdef-fedc-ba9876543210", "priority": 5,
            "demoted": true, "cause": "lifetime",
            "budgetLeft": 0, "dropped": ["lineups", "a.b"], "policy": "slow", "attempts": 2, "timestamp": 1_790_000_000,
            "source": ["topic": "causeway.commands", "partition": 3, "offset": 1_234_567_890_123] as [String: Any],
            "times": ["record": 1, "received": 2, "admitted": 3, "sent": 4, "responded": 5],
        ]
        #expect(NSDictionary(dictionary: object) == NSDictionary(dictionary: expected))
    }

    @Test func `A result leaves out absent fields, and names a command without id by its place`() throws {
        let object = try withTexts(["causeway.commands"]) { texts in
            let result = ResultRecord(
                outcome: .invalid,
                sourceTopic: texts[0]!,
                sourcePartition: 0,
                sourceOffset: 7
            )
            return try writtenObject { result.write(to: &$0) }
        }
        #expect(Set(object.keys) == ["command", "outcome", "attempts", "source", "times"])
        #expect(object["command"] as? String == "causeway.commands/0/7")
        #expect((object["times"] as? [String: Any])?.isEmpty == true)
    }

    @Test func `A result names an audience, or a device`() throws {
        let object = try withTexts(["t", "m1", "7f"]) { texts in
            var result = ResultRecord(outcome: .held, sourceTopic: texts[0]!, sourcePartition: 0, sourceOffset: 0)
            result.audience = texts[1]
            result.device = texts[2]
            return try writtenObject { result.write(to: &$0) }
        }
        #expect(object["audience"] as? String == "m1")
        #expect(object["device"] as? String == "7f")
    }

    @Test func `Each outcome has its own name`() {
        #expect(Set(Outcome.allCases.map(\.name.description)).count == Outcome.allCases.count)
    }

    @Test(arguments: [true, false])
    func `An invalidation names an activity's token, or a device's`(ofActivity: Bool) throws {
        let object = try withTexts(["com.example", "m1", RecordText.token, "Unregistered"]) { texts in
            let invalidation = InvalidationRecord(
                app: texts[0]!,
                address: ofActivity ? .activity(texts[1]!) : .device(texts[1]!),
                token: texts[2]!,
                environment: .sandbox,
                reason: texts[3]!,
                invalidAtMilliseconds: 1_790_000_000_123
            )
            return try writtenObject { invalidation.write(to: &$0) }
        }
        let expected: [String: Any] = [
            "app": "com.example", ofActivity ? "activity" : "device": "m1", "token": RecordText.token,
            "environment": "sandbox", "reason": "Unregistered", "invalidAt": 1_790_000_000_123,
        ]
        #expect(NSDictionary(dictionary: object) == NSDictionary(dictionary: expected))
    }

    static let commands: [RecordText] = [
        .update, .start, .end, .end.with("payload", "{ }"), .update.with("activity", #""\"\u20ac\ud83d\ude00\\""#),
        .update.with("sequence", "18446744073709551615").with("expiration", "1000000000").without("id")
            .without("payload"),
        .update.with("policy", #""slow""#),
        .update.with("alertTimestamp", "1789999999").with("alertSequence", "18446744073709551615"),
        .start.with("device", #""d\u0065vice""#).with("priority", "5").with("payload", #"{ "a" : 1 , "b":"é" }"#),
    ]

    @Test(arguments: commands)
    func `A command that is written again is the same command`(_ text: RecordText) throws {
        let record = Record(text.text)
        let command = try Command.decodeWrittenByCauseway(record.bytes)
        let texts = [command.app, command.activity, command.device, command.identifier, command.policy]
            .map { record.string($0) }
        var writer = JSONWriter(capacity: 1)
        withTexts(texts) { texts in
            var copy = CommandRecord(app: texts[0]!, activity: texts[1]!, aps: command.aps.bytes(in: record.bytes))
            copy.device = texts[2]
            copy.identifier = texts[3]
            copy.payloadMembers = command.payloadMembers.bytes(in: record.bytes)
            copy.sequence = command.version.sequence
            copy.priority = command.priority
            copy.policy = texts[4]
            copy.expirationSeconds = command.expirationSeconds
            if command.carriedAlertVersion.timestamp > 0 { copy.carriedAlertVersion = command.carriedAlertVersion }
            copy.write(to: &writer)
        }
        let written = Record(Array(writer.bytes))
        let copy = try Command.decodeWrittenByCauseway(written.bytes)
        #expect(copy.carriedAlertVersion == command.carriedAlertVersion)
        #expect(
            [copy.app, copy.activity, copy.device, copy.identifier, copy.policy].map { written.string($0) } == texts
        )
        #expect(written.string(copy.attributesType) == record.string(command.attributesType))
        #expect(copy.event == command.event && copy.version == command.version)
        #expect(copy.priority == command.priority && copy.expirationSeconds == command.expirationSeconds)
        #expect(copy.hasAlert == command.hasAlert && written.digest(copy) == record.digest(command))
        #expect(
            copy.staleDateSeconds == command.staleDateSeconds
                && copy.dismissalDateSeconds == command.dismissalDateSeconds
        )
        #expect(written.body(copy).text == record.body(command).text)
        #expect(written.body(copy).layout == record.body(command).layout)
        #expect(copy.token.isAbsent && copy.environment == nil)
    }
}

@Suite("Device tokens")
struct DeviceTokenTests {
    @Test func `Device tokens are copied in lower case`() {
        let digits = Record("0123456789abcdefABCDEF")
        var room = [UInt8](repeating: 0, count: 22)
        let count = room.withUnsafeMutableBytes { DeviceToken.copyLowercased(digits.bytes, into: $0) }
        #expect(count == 22)
        #expect(String(decoding: room, as: UTF8.self) == "0123456789abcdefabcdef")
    }
}
