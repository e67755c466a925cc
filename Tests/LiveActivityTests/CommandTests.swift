import LiveActivity
import RecordTestbed
import Testing

@Suite("Commands that are valid")
struct CommandTests {
    @Test func `Each field of an update is found`() throws {
        let record = Record(RecordText.update.text)
        let command = try record.command()
        #expect(command.event == .update)
        #expect(command.version == Version(timestamp: 1_790_000_000, sequence: 42))
        #expect(record.string(command.app) == "com.example.scores")
        #expect(record.string(command.activity) == "m1:7f")
        #expect(record.string(command.identifier) == "feed/7")
        #expect(record.string(command.token) == RecordText.token)
        #expect(command.environment == .sandbox)
        #expect(command.device.isAbsent)
        #expect(command.attributesType.isAbsent)
        #expect(record.string(command.aps) == RecordText.updateAps.text)
        #expect(record.string(command.timestampDigits) == "1790000000")
        #expect(record.string(command.payload) == #"{"match":"m1","live":true}"#)
        #expect(record.string(command.payloadMembers) == #""match":"m1","live":true"#)
        #expect(command.priority == 10)
        #expect(command.policy.isAbsent)
        #expect(record.string(command.alert) == RecordText.alert.text)
        #expect(command.expirationSeconds == 1_790_000_900)
        #expect(command.hasAlert)
        #expect(command.staleDateSeconds == 1_790_000_600)
        #expect(command.dismissalDateSeconds == -1)
    }

    @Test func `Each field of a start is found`() throws {
        let record = Record(RecordText.start.text)
        let command = try record.command()
        #expect(command.event == .start)
        #expect(record.string(command.device) == "7f")
        #expect(record.string(command.attributesType) == "MatchAttributes")
        #expect(command.hasAlert)
    }

    @Test func `A missing field has its default`() throws {
        let command = try Record(RecordText.end.text).command()
        #expect(command.event == .end)
        #expect(command.version.sequence == 0)
        #expect(command.priority == 0)
        #expect(command.expirationSeconds == -1)
        #expect(command.staleDateSeconds == -1)
        #expect(command.dismissalDateSeconds == 1_790_003_600)
        #expect(!command.hasAlert)
        #expect(command.environment == nil)
        #expect(command.identifier.isAbsent && command.token.isAbsent)
        #expect(command.payload.isAbsent && command.payloadMembers.isAbsent)
    }

    @Test(arguments: ["a", "Z", "0", "-_", "slow-match_2"])
    func `A policy is named by letters, digits, - and _`(name: String) throws {
        let record = Record(RecordText.update.with("policy", "\"\(name)\"").text)
        #expect(record.string(try record.command().policy) == name)
    }

    static let accepted: [(name: String, record: RecordText)] = [
        ("the longest name of a policy", RecordText.update.with("policy", "\"\(String(repeating: "a", count: 64))\"")),
        ("a priority of 5", RecordText.update.with("priority", "5")),
        ("the greatest sequence", RecordText.update.with("sequence", "18446744073709551615")),
        ("a sequence of 0", RecordText.update.with("sequence", "0")),
        ("an expiration long ago", RecordText.update.with("expiration", "1000000000")),
        ("the least timestamp", RecordText.update.with("aps.timestamp", "1000000000")),
        ("the greatest timestamp", RecordText.update.with("aps.timestamp", "9999999999")),
        ("no alert", RecordText.update.without("aps.alert")),
        ("an alert of a sound alone, in an update", RecordText.update.with("aps.alert", #"{"sound":"x"}"#)),
        ("an alert with an empty title, in an update", RecordText.update.with("aps.alert", #"{"title":""}"#)),
        (
            "an alert that is localized",
            RecordText.start.with(
                "aps.alert",
                #"{"title":{"loc-key":"GOAL","loc-args":["Kane","2:1"]},"body":{"loc-args":[],"loc-key":"B"}}"#
            )
        ),
        ("a key that Apple adds next year", RecordText.update.with("aps.shape", #"{"deep":[1,{"a":null}]}"#)),
        ("two such keys", RecordText.update.with("aps.shape", "1").with("aps.form", "2")),
        ("an end without a content state", RecordText.end.without("aps.content-state")),
        ("an end that is dismissed at once", RecordText.end.with("aps.dismissal-date", "0")),
        ("a dismissal date before 1970", RecordText.end.with("aps.dismissal-date", "-1")),
        ("a stale date with a fraction", RecordText.update.with("aps.stale-date", "1790000600.75")),
        ("a negative relevance score", RecordText.update.with("aps.relevance-score", "-0.5e-3")),
        ("a start that asks for a token", RecordText.start.with("aps.input-push-token", "1")),
        ("a start on a channel", RecordText.start.with("aps.input-push-channel", #""dHN0LXNyY2gtY2hubA==""#)),
        ("attributes in an update", RecordText.update.with("aps.attributes", "{}")),
        ("an empty payload", RecordText.update.with("payload", "{ }")),
        ("aps deep inside the payload", RecordText.update.with("payload", #"{"a":{"aps":1}}"#)),
        ("keys of a payload twice, which are the app's affair", RecordText.update.with("payload", #"{"a":1,"a":1}"#)),
        ("the longest activity id", RecordText.update.with("activity", "\"\(String(repeating: "a", count: 256))\"")),
        (
            "the longest activity id, escaped",
            RecordText.update.with("activity", "\"\(String(repeating: #"\u00e9"#, count: 128))\"")
        ),
        ("the longest id", RecordText.update.with("id", "\"\(String(repeating: "é", count: 32))\"")),
        ("the shortest token", RecordText.update.with("token", #""00fFAa11""#)),
        ("the longest token", RecordText.update.with("token", "\"\(String(repeating: "aF", count: 100))\"")),
    ]

    @Test(arguments: accepted)
    func `A valid command is accepted`(_ name: String, _ record: RecordText) {
        #expect(commandFault(record) == nil, "\(name)")
    }

    @Test func `White space is allowed wherever JSON allows it`() throws {
        let record = Record(
            """
             \t\r\n{ "app" : "a" , "activity"\n:\t"b","aps":{"event" :"end", "timestamp": 1790000000 } ,\r
            "payload" : {  "x" : [ 1 , 2 ] , "y":{ } \t} }\n\n
            """
        )
        let command = try record.command()
        #expect(record.string(command.payloadMembers) == #""x" : [ 1 , 2 ] , "y":{ }"#)
        #expect(
            String(decoding: record.body(command).text, as: UTF8.self) == """
                {"aps":{"event" :"end", "timestamp": 1790000000 },"x" : [ 1 , 2 ] , "y":{ }}
                """
        )
    }

    @Test func `Escapes are decoded in keys, ids and events`() throws {
        let record = Record(
            #"""
            {"\u0061pp":"com.ex\u0061mple","activity":"\"\\\/\u00e9\ud83d\ude00","id":"\u20ac",
            "\u0061ps":{"\u0065vent":"\u0075pdate","timesta\u006dp":1790000000,"content-state":{}}}
            """#
        )
        let command = try record.command()
        #expect(command.event == .update)
        #expect(command.app.isEscaped)
        #expect(record.string(command.app) == "com.example")
        #expect(record.string(command.activity) == "\"\\/é😀")
        #expect(record.string(command.identifier) == "€")
    }

    static let dates: [(literal: String, seconds: Int64)] = [
        ("0", 0), ("-0", 0), ("-5.5", 0), ("1", 1), ("1790000600", 1_790_000_600), ("1790000600.999", 1_790_000_600),
        ("1.7900006e9", 1_790_000_600), ("1.7900006E+9", 1_790_000_600), ("17900006000e-1", 1_790_000_600),
        ("0.5e1", 5), ("0.05e1", 0), ("0e99999999999999999999", 0), ("1e18", 1_000_000_000_000_000_000),
        ("1e19", .max), ("1e400", .max), ("9223372036854775807", .max), ("9223372036854775808", .max),
        ("99999999999999999999999999", .max), ("12e-99999999999999999999", 0), ("100e-2", 1),
        ("123456789012345678", 123_456_789_012_345_678), ("1234567890123456789", 1_234_567_890_123_456_789),
    ]

    @Test(arguments: dates)
    func `Dates are numbers of any form, truncated to whole seconds`(_ literal: String, _ seconds: Int64) throws {
        let command = try Record(RecordText.update.with("aps.stale-date", literal).text).command()
        #expect(command.staleDateSeconds == seconds)
    }
}

@Suite("Versions")
struct VersionTests {
    @Test func `Versions are ordered by timestamp, then by sequence`() {
        let ordered = [
            Version(timestamp: 1, sequence: 9), Version(timestamp: 2, sequence: 0),
            Version(timestamp: 2, sequence: .max),
            Version(timestamp: 3, sequence: 0),
        ]
        #expect(ordered.shuffled().sorted() == ordered)
        #expect(!(ordered[0] < ordered[0]))
    }
}
