import CausewayRecords
import Foundation
import Testing

/// An app's types with a `ClosedRange<Date>` and a `Date`, whose JSON form producers often get wrong.
struct RideAttributes: Codable, Hashable, Sendable {
    struct ContentState: Codable, Hashable, Sendable {
        var driverName: String
        var eta: ClosedRange<Date>
        var distanceRemaining: Double
        var note: String?
    }

    var riderName: String
    var bookedAt: Date
}

@Suite("Commands of the kit")
struct CommandTests {
    typealias State = RideAttributes.ContentState
    typealias RideCommand = LiveActivityCommand<State>

    static let app = "com.example.ride"
    static let time = Date(timeIntervalSince1970: 1_790_000_000.9)
    /// About ten minutes after `time`. The number is in seconds since 2001, as in ActivityKit's JSON.
    static let arrival = Date(timeIntervalSinceReferenceDate: 811_693_400)
    static let state = State(
        driverName: "Tomasz \"T\" 😀",
        eta: arrival...arrival.addingTimeInterval(120),
        distanceRemaining: 3.1
    )
    static let attributes = RideAttributes(riderName: "Ana", bookedAt: arrival)
    static let alert = Alert(
        title: "Your driver",
        body: .localized(key: "ARRIVES", arguments: ["Tomasz"]),
        sound: "default"
    )

    private static func record(staleDate: String) -> Data {
        Data(
            (#"{"activity":"b","app":"a","aps":{"content-state":{},"event":"update","stale-date":\#(staleDate),"#
                + #""timestamp":1790000000}}"#)
                .utf8
        )
    }

    /// The worker accepts any number as a stale date, so the library must keep its digits.
    @Test(arguments: ["1e300", "-1e300", "9300000000000000000", "1e400", "1790000000.75"])
    func `A date that was read is written with the same digits`(seconds: String) throws {
        let record = Self.record(staleDate: seconds)
        #expect(try LiveActivityCommand<JSONValue>(value: record).value() == record)
    }

    @Test func `A date that JSON has no number for is an error, not a trap`() throws {
        var command = try LiveActivityCommand<JSONValue>(value: Self.record(staleDate: "1"))
        command.staleDate = Date(timeIntervalSince1970: .infinity)
        #expect(throws: RecordFault.self) { try command.value() }
    }

    @Test func `A change of a command that was read keeps everything else as it was`() throws {
        let record =
            #"{"activity":"b","app":"a","aps":{"alert":{"body":{"loc-args":[],"loc-key":"k","new":1.0},"new":[],"title":"t"},"#
            + #""content-state":{"home":1.0},"event":"update","new":-0,"stale-date":1790000600.5,"timestamp":1790000000},"#
            + #""payload":{"n":123456789012345678901234567890}}"#
        var command = try LiveActivityCommand<JSONValue>(value: Data(record.utf8))
        command.alert?.title = "u"
        command.contentState = ["home": 2]
        command.staleDate = nil
        command.timestamp += 1.5
        let expected = record.replacing(#""title":"t""#, with: #""title":"u""#)
            .replacing("1.0},\"event", with: "2},\"event")
            .replacing(#""stale-date":1790000600.5,"#, with: "").replacing("1790000000}", with: "1790000001}")
        #expect(String(decoding: try command.value(), as: UTF8.self) == expected)
    }

    @Test func `An id counts as changed if it has the same characters in other bytes`() throws {
        let record = #"{"app":"com.example.ride","activity":"é","aps":{"event":"update","timestamp":1790000000}}"#
        var command = try LiveActivityCommand<JSONValue>(value: Data(record.utf8))
        command.address = .activity("e\u{301}")
        let text = String(decoding: try command.value(), as: UTF8.self)
        // The accent behind `e` ends with the byte 0x81. The single character `é` ends with 0xA9.
        #expect(text.utf8.contains(0x81) && !text.utf8.contains(0xA9), "\(text)")
    }

    @Test(arguments: [true, false])
    func `A command to an audience may ask for a broadcast channel`(asks: Bool) throws {
        var command = RideCommand.update(app: Self.app, .audience("final"), at: Self.time, contentState: Self.state)
        command.requestsChannel = asks
        let value = try command.value()
        #expect(WorkerCodec.commandFault(value) == nil)
        #expect(String(decoding: value, as: UTF8.self).contains(#""channel":\#(asks)"#))
        #expect(try RideCommand(value: value).requestsChannel == asks)
    }

    private static func withAllFields(_ command: RideCommand) -> RideCommand {
        var command = command
        command.staleDate = time.addingTimeInterval(120)
        command.relevanceScore = 80.5
        command.payload = ["ride": ["a/b", 7, 1.5, true, .null, .unsigned(.max)], "n": -3]
        command.id = "ride-3/\u{e9}"
        command.sequence = .max
        command.priority = 10
        command.expiration = time.addingTimeInterval(600)
        command.policy = "slow_1"
        return command
    }

    static func commands() throws -> [RideCommand] {
        let update = RideCommand.update(app: app, .activity("ride/7"), at: time, contentState: state)
        var withToken = withAllFields(update)
        withToken.token = (PushToken([0x00, 0xFF, 0x10, 0xA0]), .sandbox)
        withToken.alert = alert
        var onChannel = try RideCommand.start(
            app: app,
            activity: "ride/7",
            device: "phone-7",
            at: time,
            attributes: attributes,
            contentState: state,
            alert: alert
        )
        if case .start(var start) = onChannel.event {
            start.updates = .channel("dHN0LXNyY2gtY2hubA==")
            onChannel.event = .start(start)
        }
        var withUpdateToken = onChannel
        if case .start(var start) = withUpdateToken.event {
            start.updates = .token
            withUpdateToken.event = .start(start)
        }
        return [
            update, withToken, onChannel, withAllFields(withUpdateToken),
            try .start(
                app: app,
                audience: "rides",
                activityTemplate: "ride-{device}",
                at: time,
                attributes: attributes,
                attributesType: "OtherName",
                contentState: state,
                alert: alert
            ),
            withAllFields(.update(app: app, .audience("rides"), at: time, contentState: state, alert: alert)),
            .update(app: app, .channel("dHN0LXNyY2gtY2hubA==", .sandbox), at: time, contentState: state),
            .end(app: app, .activity("ride/7"), at: time),
            .end(app: app, .audience("rides"), at: time, contentState: state, dismissalDate: .distantPast),
            .end(app: app, .channel("Y2g=", .production), at: time, contentState: state, dismissalDate: time),
        ]
    }

    @Test func `The worker accepts the library's commands, and the library reads them as it wrote them`() throws {
        for command in try Self.commands() {
            let value = try command.value()
            #expect(WorkerCodec.commandFault(value) == nil, "\(String(decoding: value, as: UTF8.self))")
            #expect(try RideCommand(value: value).value() == value)
            #expect(try RideCommand(value: value).key == command.key)
        }
    }

    @Test func `Commands have Apple's dates as UNIX seconds, and the app's as ActivityKit reads them`() throws {
        let command = Self.withAllFields(
            try .start(
                app: Self.app,
                activity: "a",
                device: "d",
                at: Self.time,
                attributes: Self.attributes,
                contentState: Self.state,
                alert: Self.alert
            )
        )
        let body = try #require(JSONSerialization.jsonObject(with: WorkerCodec.body(command.value())) as? [String: Any])
        let aps = try #require(body["aps"] as? [String: Any])
        #expect(aps["timestamp"] as? Int == 1_790_000_000)
        #expect(aps["stale-date"] as? Int == 1_790_000_120)
        #expect(aps["attributes-type"] as? String == "RideAttributes")
        let content = try #require(aps["content-state"] as? [String: Any])
        #expect(content["eta"] as? [Int] == [811_693_400, 811_693_520])

        // ActivityKit decodes the state on the phone in the same way, with default strategies.
        let state = try JSONDecoder().decode(State.self, from: JSONSerialization.data(withJSONObject: content))
        #expect(state == Self.state)
        let attributes = try #require(aps["attributes"])
        let data = try JSONSerialization.data(withJSONObject: attributes)
        #expect(try JSONDecoder().decode(RideAttributes.self, from: data) == Self.attributes)
    }

    @Test func `Commands keep the app's dates right with an encoder that has other strategies`() throws {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        let command = RideCommand.update(app: Self.app, .activity("a"), at: Self.time, contentState: Self.state)
        let object = try JSONSerialization.jsonObject(with: encoder.encode(command)) as? [String: Any]
        let aps = try #require(object?["aps"] as? [String: Any])
        #expect((aps["content-state"] as? [String: Any])?["eta"] as? [Int] == [811_693_400, 811_693_520])
        #expect(aps["timestamp"] as? Int == 1_790_000_000)
    }

    @Test func `Commands give the same bytes for the same state, so that the worker notices an unchanged one`() throws {
        let first = RideCommand.update(app: Self.app, .activity("a"), at: Self.time, contentState: Self.state)
        var second = first
        second.timestamp += 5
        #expect(try WorkerCodec.digest(first.value()) == WorkerCodec.digest(second.value()))
        second.contentState?.distanceRemaining = 3
        #expect(try WorkerCodec.digest(first.value()) != WorkerCodec.digest(second.value()))
    }

    @Test func `Commands cannot hold a state that JSON cannot represent`() {
        var state = Self.state
        state.distanceRemaining = .nan
        let command = RideCommand.update(app: Self.app, .activity("a"), contentState: state)
        #expect(throws: EncodingError.self) { try command.value() }
    }

    @Test func `A command's key is the id of its activity, audience or channel`() throws {
        #expect(
            try Self.commands().map(\.key) == [
                "ride/7", "ride/7", "ride/7", "ride/7", "rides", "rides", "dHN0LXNyY2gtY2hubA==", "ride/7", "rides",
                "Y2g=",
            ]
        )
        #expect(RideCommand.defaultTopic == "causeway.commands")
    }
}
