import RecordTestbed
import Testing

@testable import LiveActivity

@Suite("Messages of faults")
struct FaultMessageTests {
    /// `message` lacks the place of the fault; `place` is the text at this place.
    static let messages: [(record: RecordText, message: String, place: String)] = [
        (
            .update.with("aps.timestamp", "1790000000000"),
            "aps.timestamp: must be whole seconds since 1970, 10 digits (milliseconds have 13, seconds since 2001 have 9)",
            "1790000000000"
        ),
        (.update.with("colour", "1"), "colour: unknown key", "\"colour\""),
        (.update.with("priority", "7"), "priority: must be 5 or 10", "7,\"expiration"),
        (
            .update.with("policy", #""a b""#),
            "policy: must be a string of 1 to 64 letters, digits, \"-\" and \"_\"", #""a b""#
        ),
        (
            .update.with("policy", "\"\(String(repeating: "a", count: 65))\""),
            "policy: must be a string of 1 to 64 letters, digits, \"-\" and \"_\", and has 65 bytes", "\"aaa"
        ),
        (
            .start.with("aps.alert", #"{"title":"t"}"#),
            "aps.alert.body: missing, must be a string, or an object with \"loc-key\" and optionally \"loc-args\"",
            #"{"title":"t"}"#
        ),
        (
            .update.with("activity", "\"\(String(repeating: "a", count: 300))\""),
            "activity: must be a string of 1 to 256 bytes, and has 300 bytes", "\"aaa"
        ),
        (
            .update.with("aps.content-state", "{\"x\":\"\(String(repeating: "y", count: 5_000))\"}"),
            "body: the request body has 5200 bytes, 4096 are allowed", "{\"timestamp"
        ),
        (
            .update.with("aps.content-state", "{\"x\":\"\(String(repeating: "y", count: 9_000))\"}"),
            "aps.content-state: a string has 9000 bytes, 8192 are allowed", "\"yyy"
        ),
        (
            .startOfAudience.with("activity", #""m1:7f""#),
            #"activity: must contain "{device}", which is replaced by each device's id"#, #""m1:7f""#
        ),
    ]

    @Test(arguments: messages)
    func `Messages name the field, what it must be, and the place`(
        _ text: RecordText,
        _ message: String,
        _ place: String
    ) throws {
        let record = Record(text.text)
        let offset = try #require(text.text.firstRange(of: place)).lowerBound.utf16Offset(in: text.text)
        #expect(commandFault(text)?.message(in: record.bytes) == "\(message) (at byte \(offset))")
    }

    @Test func `Messages never hold a token, at any place in a record`() {
        let token = RecordText.token
        let records: [String] = [
            RecordText.update.with("token", "\"\(token)x\"").text,
            RecordText.update.with("token", "\"\(token.dropLast())\"").text,
            RecordText.update.with(token, "1").text,
            RecordText.update.with("x\(token)", "1").text,
            RecordText.update.with("environment", "\"\(token)\"").text,
            RecordText.update.with("aps.event", "\"\(token)\"").text,
            "{\"aps\":{\"\(token)\":1,\"\(token)\":1}}",
            "{\"token\":\"\(token)\",\"token\":\"\(token)\"}",
            "{\"token\":\"\(token)",
            "\"\(token)\"",
        ]
        for text in records {
            let record = Record(text)
            guard let fault = commandFault(text) else {
                Issue.record("accepted: \(text)")
                continue
            }
            let message = fault.message(in: record.bytes)
            for start in token.indices.dropLast(15) {
                let part = token[start...].prefix(16)
                #expect(!message.contains(part))
            }
        }
    }

    @Test func `Messages exist for each code and each field`() {
        let record = Record("{}")
        var names: Set<String> = []
        for code in FaultCode.allCases {
            names.insert(code.name.description)
            for field in Field.allCases {
                let fault = Fault(code, field, at: 0)
                #expect(fault.message(in: record.bytes).hasSuffix("(at byte 0)"))
            }
        }
        #expect(names.count == FaultCode.allCases.count)
        #expect(Set(Field.allCases.map(\.path.description)).count == Field.allCases.count)
    }
}
