import LiveActivity
import RecordTestbed
import Testing

/// A record, and the fault that decoding it must find.
struct FaultCase: CustomTestStringConvertible, Sendable {
    var record: String
    var code: FaultCode
    var path: String

    init(_ record: RecordText, _ code: FaultCode, _ path: String) {
        self.init(record.text, code, path)
    }

    init(_ record: String, _ code: FaultCode, _ path: String) {
        self.record = record
        self.code = code
        self.path = path
    }

    var testDescription: String { "\(path) \(code): \(record.prefix(80))" }

    func expect(_ decode: (Record) throws(Fault) -> Void) {
        let record = Record(record)
        do throws(Fault) {
            try decode(record)
            Issue.record("accepted: \(self.record)")
        } catch {
            #expect(error.code == code)
            #expect(error.path.description(in: record.bytes) == path)
            #expect(error.offset >= 0 && error.offset <= record.bytes.count)
        }
    }
}

@Suite("Commands that are refused")
struct CommandFaultTests {
    /// One value of each JSON type.
    static let values: [(type: String, value: String)] = [
        ("null", "null"), ("boolean", "true"), ("number", "17"), ("string", #""text""#), ("array", "[]"),
        ("object", "{}"),
    ]

    /// Fields, and the JSON types that each allows.
    static let types: [(path: String, template: RecordText, allowed: Set<String>)] = [
        ("app", .update, ["string"]), ("activity", .update, ["string"]), ("device", .start, ["string"]),
        ("id", .update, ["string"]), ("token", .update, ["string"]), ("environment", .update, ["string"]),
        ("sequence", .update, ["number"]), ("priority", .update, ["number"]), ("expiration", .update, ["number"]),
        ("policy", .update, ["string"]),
        ("aps", .update, ["object"]), ("payload", .update, ["object"]), ("audience", .update, ["string"]),
        ("aps.event", .update, ["string"]), ("aps.timestamp", .update, ["number"]),
        ("aps.content-state", .update, ["object"]), ("aps.content-state", .end, ["object"]),
        ("aps.attributes-type", .start, ["string"]), ("aps.attributes", .start, ["object"]),
        ("aps.alert", .start, ["object"]), ("aps.alert", .update, ["object"]),
        ("aps.stale-date", .update, ["number"]), ("aps.dismissal-date", .end, ["number"]),
        ("aps.relevance-score", .update, ["number"]), ("aps.input-push-token", .start, ["number"]),
        ("aps.input-push-channel", .start, ["string"]), ("aps.alert.title", .start, ["string", "object"]),
        ("aps.alert.body", .update, ["string", "object"]), ("aps.alert.sound", .update, ["string"]),
    ]

    static let wrongTypes: [FaultCase] = types.flatMap { field in
        values.filter { !field.allowed.contains($0.type) }
            .map {
                FaultCase(field.template.with(field.path, $0.value), .wrongType, field.path)
            }
    }

    @Test(arguments: wrongTypes)
    func `Commands are refused for each wrong type of each field`(_ fault: FaultCase) {
        fault.expect { (record) throws(Fault) in _ = try record.command() }
    }

    static let missingFields: [FaultCase] = [
        FaultCase(.update.without("app"), .missingField, "app"),
        FaultCase(.update.without("aps"), .missingField, "aps"),
        FaultCase(.update.without("activity"), .missingField, "activity"),
        FaultCase(.update.without("token"), .missingField, "token"),
        FaultCase(.update.without("environment"), .missingField, "environment"),
        FaultCase(.start.without("device"), .missingField, "device"),
        FaultCase(.update.without("aps.event"), .missingField, "aps.event"),
        FaultCase(.update.without("aps.timestamp"), .missingField, "aps.timestamp"),
        FaultCase(.update.without("aps.content-state"), .missingField, "aps.content-state"),
        FaultCase(.start.without("aps.content-state"), .missingField, "aps.content-state"),
        FaultCase(.start.without("aps.attributes-type"), .missingField, "aps.attributes-type"),
        FaultCase(.start.without("aps.attributes"), .missingField, "aps.attributes"),
        FaultCase(.start.without("aps.alert"), .missingField, "aps.alert"),
        FaultCase(.start.with("aps.alert", #"{"body":"b"}"#), .missingField, "aps.alert.title"),
        FaultCase(.start.with("aps.alert", #"{"title":"t"}"#), .missingField, "aps.alert.body"),
        FaultCase(.start.with("aps.alert", #"{"title":"","body":"b"}"#), .emptyText, "aps.alert.title"),
        FaultCase(.start.with("aps.alert", #"{"title":"t","body":""}"#), .emptyText, "aps.alert.body"),
        FaultCase(.start.with("aps.alert", #"{"title":{},"body":"b"}"#), .missingField, "aps.alert.title.loc-key"),
        FaultCase(
            .start.with("aps.alert", #"{"title":"t","body":{"loc-args":[]}}"#),
            .missingField,
            "aps.alert.body.loc-key"
        ),
        FaultCase(
            .start.with("aps.alert", #"{"title":{"loc-key":""},"body":"b"}"#),
            .emptyText,
            "aps.alert.title"
        ),
        FaultCase("{}", .missingField, "app"),
    ]

    static let contradictions: [FaultCase] = [
        FaultCase(.update.with("audience", #""m1""#), .notAllowed, "audience"),
        FaultCase(.update.with("channel", "true"), .notAllowed, "channel"),
        FaultCase(.start.with("channel", "false"), .notAllowed, "channel"),
        FaultCase(.toAudience.with("channel", "1"), .wrongType, "channel"),
        FaultCase(.toChannel.with("channel", #""""#), .emptyText, "channel"),
        FaultCase(.toChannel.with("channel", #""abc""#), .unknownValue, "channel"),
        FaultCase(.toChannel.with("channel", #""ab-_""#), .unknownValue, "channel"),
        FaultCase(.toChannel.with("channel", "\"\(String(repeating: "a", count: 68))\""), .tooLong, "channel"),
        FaultCase(.toChannel.with("activity", #""a""#), .notAllowed, "channel"),
        FaultCase(.toChannel.with("audience", #""a""#), .notAllowed, "channel"),
        FaultCase(.toChannel.with("device", #""a""#), .notAllowed, "channel"),
        FaultCase(.toChannel.with("token", "\"\(RecordText.token)\""), .notAllowed, "channel"),
        FaultCase(.toChannel.with("aps", RecordText.startAps.text), .notAllowed, "channel"),
        FaultCase(.toAudience.with("token", "\"\(RecordText.token)\""), .notAllowed, "token"),
        FaultCase(.toAudience.with("environment", #""sandbox""#), .notAllowed, "environment"),
        FaultCase(.toAudience.with("device", #""7f""#), .notAllowed, "audience"),
        FaultCase(.startOfAudience.with("device", #""7f""#), .notAllowed, "audience"),
        FaultCase(.startOfAudience.without("activity"), .missingField, "activity"),
        FaultCase(.startOfAudience.with("activity", #""m1:7f""#), .missingPlaceholder, "activity"),
        FaultCase(.startOfAudience.with("activity", #""{device""#), .missingPlaceholder, "activity"),
        FaultCase(.toAudience.with("audience", #""""#), .emptyText, "audience"),
        FaultCase(.toAudience.with("audience", "\"\(String(repeating: "a", count: 257))\""), .tooLong, "audience"),
        FaultCase(.update.with("device", #""7f""#), .notAllowed, "device"),
        FaultCase(.end.with("device", #""7f""#), .notAllowed, "device"),
        FaultCase(.update.with("aps.dismissal-date", "0"), .notAllowed, "aps.dismissal-date"),
        FaultCase(.start.with("aps.dismissal-date", "0"), .notAllowed, "aps.dismissal-date"),
        FaultCase(.update.with("aps.input-push-token", "1"), .notAllowed, "aps.input-push-token"),
        FaultCase(.end.with("aps.input-push-channel", #""c""#), .notAllowed, "aps.input-push-channel"),
        FaultCase(
            .start.with("aps.input-push-token", "1").with("aps.input-push-channel", #""c""#),
            .notAllowed,
            "aps.input-push-channel"
        ),
        FaultCase(.update.with("payload", #"{"a":1,"aps":{}}"#), .notAllowed, "payload"),
        FaultCase(.update.with("payload", #"{"\u0061p\u0073":{}}"#), .notAllowed, "payload"),
    ]

    static let unknownKeys: [FaultCase] = [
        FaultCase(.update.with("contentState", "{}"), .unknownKey, "contentState"),
        FaultCase(.update.with("App", "1"), .unknownKey, "App"),
        FaultCase(.update.with("alertTimestamp", "1789999999"), .unknownKey, "alertTimestamp"),
        FaultCase(.update.with("alertSequence", "0"), .unknownKey, "alertSequence"),
        FaultCase(.update.with("", "1"), .unknownKey, ""),
        FaultCase(.update.with("zażółć", "1"), .unknownKey, "(key of 10 bytes)"),
        FaultCase(.update.with(RecordText.token, "1"), .unknownKey, "(key of 64 bytes)"),
        FaultCase(.update.with(String(repeating: "k", count: 65), "1"), .unknownKey, "(key of 65 bytes)"),
        FaultCase(.update.with("environment", #""Production""#), .unknownValue, "environment"),
        FaultCase(.update.with("environment", #""development""#), .unknownValue, "environment"),
        FaultCase(.update.with("aps.event", #""Update""#), .unknownValue, "aps.event"),
        FaultCase(.update.with("aps.event", #""""#), .unknownValue, "aps.event"),
    ]

    static let duplicateKeys: [FaultCase] = [
        FaultCase(#"{"app":"a","app":"a"}"#, .duplicateKey, "app"),
        FaultCase(#"{"app":"a","\u0061pp":"a"}"#, .duplicateKey, "app"),
        FaultCase(#"{"aps":{"event":"end","event":"end"}}"#, .duplicateKey, "aps.event"),
        FaultCase(#"{"aps":{"event":"end","e\u0076ent":"end"}}"#, .duplicateKey, "aps.event"),
        FaultCase(#"{"aps":{"new":1,"alert":{},"other":[{}],"new":2}}"#, .duplicateKey, "aps.new"),
        FaultCase(#"{"aps":{"new":1,"n\u0065w" : 2 , "x":3}}"#, .duplicateKey, #"aps.n\u0065w"#),
        FaultCase(#"{"aps":{"alert":{"title":"a","title":"b"}}}"#, .duplicateKey, "aps.alert.title"),
        FaultCase(#"{"aps":{"alert":{"x":"a","x":"b"}}}"#, .duplicateKey, "aps.alert.x"),
        FaultCase(
            #"{"aps":{"alert":{"body":{"loc-key":"a","loc-key":"b"}}}}"#,
            .duplicateKey,
            "aps.alert.body.loc-key"
        ),
    ]

    static let invalidTexts: [FaultCase] = ["app", "activity", "id"]
        .flatMap { field in
            [
                FaultCase(.update.with(field, #""""#), .emptyText, field),
                FaultCase(.update.with(field, #""a\u0000b""#), .invalidCharacter, field),
                FaultCase(.update.with(field, #""a\nb""#), .invalidCharacter, field),
                FaultCase(.update.with(field, #""a\u001f""#), .invalidCharacter, field),
                FaultCase(.update.with(field, "\"a\u{7F}\""), .invalidCharacter, field),
                FaultCase(.update.with(field, "\"\u{85}\""), .invalidCharacter, field),
                FaultCase(.update.with(field, #""\u009f""#), .invalidCharacter, field),
                FaultCase(
                    .update.with(field, "\"\(String(repeating: "a", count: field == "id" ? 65 : 257))\""),
                    .tooLong,
                    field
                ),
                FaultCase(
                    .update.with(field, "\"\(String(repeating: "é", count: field == "id" ? 33 : 129))\""),
                    .tooLong,
                    field
                ),
                FaultCase(.update.with(field, "\"a\u{0}b\""), .controlCharacter, field),
            ]
        }

    static let invalidNumbers: [FaultCase] = [
        FaultCase(.update.with("sequence", "-1"), .outOfRange, "sequence"),
        FaultCase(.update.with("sequence", "18446744073709551616"), .outOfRange, "sequence"),
        FaultCase(.update.with("sequence", "99999999999999999999"), .outOfRange, "sequence"),
        FaultCase(.update.with("sequence", String(repeating: "9", count: 5_000)), .outOfRange, "sequence"),
        FaultCase(.update.with("sequence", "1.0"), .wrongType, "sequence"),
        FaultCase(.update.with("sequence", "1e2"), .wrongType, "sequence"),
        FaultCase(.update.with("sequence", "01"), .notJSON, "sequence"),
        FaultCase(.update.with("priority", "1"), .outOfRange, "priority"),
        FaultCase(.update.with("priority", "0"), .outOfRange, "priority"),
        FaultCase(.update.with("priority", "266"), .outOfRange, "priority"),
        FaultCase(.update.with("policy", "\"\""), .emptyText, "policy"),
        FaultCase(.update.with("policy", "\"\(String(repeating: "a", count: 65))\""), .tooLong, "policy"),
        FaultCase(.update.with("policy", "\"a b\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", "\"é\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", "\"a.b\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", "\"@\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", "\"[\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", "\"`\""), .invalidCharacter, "policy"),
        FaultCase(.update.with("policy", #""\u0061""#), .invalidCharacter, "policy"),
        FaultCase(.update.with("expiration", "-1"), .outOfRange, "expiration"),
        FaultCase(.update.with("expiration", "0"), .outOfRange, "expiration"),
        FaultCase(.update.with("expiration", "999999999"), .outOfRange, "expiration"),
        FaultCase(.update.with("expiration", "1790000900000"), .outOfRange, "expiration"),
        FaultCase(.update.with("aps.timestamp", "1790000000000"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "811692800"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "999999999"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "10000000000"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "18446744073709551616"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "1e400"), .wrongType, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "1790000000.5"), .wrongType, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "-1790000000"), .outOfRange, "aps.timestamp"),
        FaultCase(.update.with("aps.timestamp", "\"1790000000\""), .wrongType, "aps.timestamp"),
        FaultCase(.start.with("aps.input-push-token", "2"), .outOfRange, "aps.input-push-token"),
        FaultCase(.start.with("aps.input-push-channel", "\"\""), .emptyText, "aps.input-push-channel"),
        FaultCase(.start.with("aps.attributes-type", "\"\""), .emptyText, "aps.attributes-type"),
    ]

    static let invalidTokens: [FaultCase] = [
        "", "00fc13", "00fc13a", "00fc13adf", "00fc13ag", "00fc13a ", "00fc13a/", "00fc13a:", "00fc13a@", "00fc13a`",
        "00fc13aG", "éé00fc13", #"\u0030f00fc13"#, String(repeating: "ab", count: 101), "0123456789abcdefg0",
        "0123456789abcdef0g",
    ]
    .map { FaultCase(.update.with("token", "\"\($0)\""), .invalidHexadecimal, "token") }

    @Test(
        arguments: missingFields + contradictions + unknownKeys + duplicateKeys + invalidTexts + invalidNumbers
            + invalidTokens
    )
    func `Commands are refused for what is missing, contradictory, unknown, there twice, or out of range`(
        _ fault: FaultCase
    ) {
        fault.expect { (record) throws(Fault) in _ = try record.command() }
    }

    @Test func `Each byte that is no hexadecimal digit invalidates a token, at any position`() {
        let digits = Array("0123456789abcdefABCDEF".utf8)
        for length in [8, 14, 16, 64] {
            for position in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var token = (0..<length).map { digits[$0 % digits.count] }
                    token[position] = byte
                    let isToken = token.withUnsafeBytes { DeviceToken.isValid($0) }
                    guard isToken == digits.contains(byte) else {
                        Issue.record("byte \(byte) at \(position) of \(length)")
                        return
                    }
                }
            }
        }
    }

    @Test func `Commands are refused for more unknown keys than allowed`() {
        func record(_ count: Int) -> RecordText {
            (0..<count).reduce(RecordText.updateAps) { $0.with("k\($1)", "1") }
        }
        #expect(commandFault(.update.with("aps", record(Limits.unknownKeysPerObjectMax).text)) == nil)
        #expect(commandFault(.update.with("aps", record(Limits.unknownKeysPerObjectMax + 1).text))?.code == .tooMany)
    }

    @Test func `Commands are refused for a body over the limit, by one byte`() throws {
        func record(_ filler: Int) -> RecordText {
            RecordText.update.with("aps.content-state", "{\"x\":\"\(String(repeating: "y", count: filler))\"}")
        }
        let bodyByteCountMin = try Record(record(0).text).command().bodyByteCount
        let largestRecord = Record(record(Limits.bodyBytesMax - bodyByteCountMin).text)
        let command = try largestRecord.command()
        #expect(command.bodyByteCount == 4_096)
        #expect(largestRecord.body(command).text.count == 4_096)
        let fault = commandFault(record(Limits.bodyBytesMax - bodyByteCountMin + 1))
        #expect(fault?.code == .bodyTooLarge)
        #expect(fault?.valueAboveLimit == 4_097)
    }
}
