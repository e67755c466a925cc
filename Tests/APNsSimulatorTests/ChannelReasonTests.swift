import APNsSimulator
import Foundation
import Testbed
import Testing

/// Sends valid and faulty requests for broadcasts and channels, and checks the reason of each response.
@Suite(.ownThread) struct ChannelReasonTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var method = "POST"
        var changes: [String: String?] = [:]
        var repeatedFields: [String] = []
        var body: String?
        var status = 200
        var reason: SimulatedResponse
        var testDescription: String { name }
    }

    private static let spaces = String(repeating: " ", count: 5_118)
    private static let unknownChannel = "AAAAAAAAAAAAAAAAAAAAAA=="

    static let broadcasts: [Row] = [
        Row(name: "in order", reason: .success),
        Row(name: "GET", method: "GET", reason: .methodNotAllowed),
        Row(name: "no app", changes: [":path": "/4/broadcasts/apps/"], reason: .badPath),
        Row(name: "more behind the app", changes: [":path": "/4/broadcasts/apps/a/b"], reason: .badPath),
        Row(name: "management here", changes: [":path": "/1/apps/\(SimulatorFixture.app)/channels"], reason: .badPath),
        Row(name: "repeated channel", repeatedFields: ["apns-channel-id"], reason: .badRequestParams),
        Row(name: "no authorization", changes: ["authorization": nil as String?], reason: .missingProviderToken),
        Row(name: "not a token", changes: ["authorization": "bearer a.b.c"], reason: .invalidProviderToken),
        Row(name: "request id is no UUID", changes: ["apns-request-id": "1"], reason: .badMessageId),
        Row(name: "no request id", changes: ["apns-request-id": nil as String?], reason: .success),
        Row(name: "no push type", changes: ["apns-push-type": nil as String?], reason: .missingPushType),
        Row(name: "another push type", changes: ["apns-push-type": "alert"], reason: .invalidPushType),
        Row(name: "no channel", changes: ["apns-channel-id": nil as String?], reason: .missingChannelId),
        Row(name: "channel is not base64", changes: ["apns-channel-id": "a-b="], reason: .badChannelId),
        Row(name: "base64 without padding", changes: ["apns-channel-id": "YWI"], reason: .badChannelId),
        Row(
            name: "endless channel",
            changes: ["apns-channel-id": String(repeating: "A", count: 400)],
            reason: .badChannelId
        ),
        Row(name: "priority 1", changes: ["apns-priority": "1"], reason: .success),
        Row(name: "priority 7", changes: ["apns-priority": "7"], reason: .badPriority),
        Row(name: "no expiration", changes: ["apns-expiration": nil as String?], reason: .badExpirationDate),
        Row(name: "expiration is no number", changes: ["apns-expiration": "soon"], reason: .badExpirationDate),
        Row(name: "no body", body: "", reason: .payloadEmpty),
        Row(name: "5,120 bytes", body: "{" + spaces + "}", reason: .success),
        Row(name: "5,121 bytes", body: "{ " + spaces + "}", reason: .payloadTooLarge),
        Row(name: "no JSON", body: "{\"aps\":", reason: .badRequestPayload),
        Row(
            name: "app with the topic's suffix",
            changes: [":path": "/4/broadcasts/apps/\(SimulatorFixture.topic)"],
            reason: .topicDisallowed
        ),
        Row(
            name: "another team's app",
            changes: [":path": "/4/broadcasts/apps/com.example.other"],
            reason: .topicDisallowed
        ),
        Row(name: "unknown channel", changes: ["apns-channel-id": unknownChannel], reason: .channelNotRegistered),
        Row(
            name: "to be stored where nothing is",
            changes: ["apns-expiration": "9999999999"],
            reason: .badExpirationDate
        ),
    ]

    @Test(arguments: broadcasts) func `Broadcasts are refused with each reason`(_ row: Row) async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: false)
            var headers = fixture.broadcastHeaders(channel, row.changes)
            headers[0].1 = row.method
            try check(row, headers, fixture.connect(), body: row.body ?? fixture.update(home: 1))
        }
    }

    static let requests: [Row] = [
        Row(name: "created", status: 201, reason: .success),
        Row(name: "read", method: "GET", body: "", reason: .success),
        Row(name: "deleted", method: "DELETE", body: "", status: 204, reason: .success),
        Row(name: "PUT", method: "PUT", reason: .methodNotAllowed),
        Row(
            name: "list by POST",
            changes: [":path": "/1/apps/\(SimulatorFixture.app)/all-channels"],
            reason: .methodNotAllowed
        ),
        Row(name: "another path", changes: [":path": "/1/apps/\(SimulatorFixture.app)/channel"], reason: .badPath),
        Row(
            name: "a broadcast here",
            changes: [":path": "/4/broadcasts/apps/\(SimulatorFixture.app)"],
            reason: .badPath
        ),
        Row(name: "a push here", changes: [":path": "/3/device/00"], reason: .badPath),
        Row(name: "no authorization", changes: ["authorization": nil as String?], reason: .missingProviderToken),
        Row(name: "not a token", changes: ["authorization": "bearer a.b.c"], reason: .invalidProviderToken),
        Row(name: "request id is no UUID", changes: ["apns-request-id": "1"], reason: .badMessageId),
        Row(name: "no body", body: "", reason: .payloadEmpty),
        Row(name: "no JSON", body: "{", reason: .badRequestPayload),
        Row(name: "no policy", body: #"{"push-type":"LiveActivity"}"#, reason: .missingChannelQueueSize),
        Row(name: "policy 2", body: SimulatorFixture.creationBody(2), reason: .badRequestParams),
        Row(name: "no type", body: #"{"message-storage-policy":1}"#, reason: .missingPushType),
        Row(
            name: "type of the header",
            body: #"{"message-storage-policy":1,"push-type":"liveactivity"}"#,
            reason: .invalidPushType
        ),
        Row(
            name: "app with the topic's suffix",
            changes: [":path": "/1/apps/\(SimulatorFixture.topic)/channels"],
            reason: .topicDisallowed
        ),
        Row(
            name: "read without a channel",
            method: "GET",
            changes: ["apns-channel-id": nil as String?],
            body: "",
            reason: .missingChannelId
        ),
        Row(
            name: "delete no base64",
            method: "DELETE",
            changes: ["apns-channel-id": "?"],
            body: "",
            reason: .badChannelId
        ),
        Row(
            name: "delete unknown",
            method: "DELETE",
            changes: ["apns-channel-id": unknownChannel],
            body: "",
            reason: .channelNotRegistered
        ),
    ]

    @Test(arguments: requests) func `Management requests are refused with each reason`(_ row: Row) async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            var changes = row.changes
            if row.method != "POST", !changes.keys.contains("apns-channel-id") { changes["apns-channel-id"] = channel }
            let headers = fixture.managementHeaders(row.method, changes)
            try check(row, headers, fixture.connectToManagement(), body: row.body ?? SimulatorFixture.creationBody(1))
        }
    }

    private func check(_ row: Row, _ fields: [(String, String)], _ client: H2Client, body: String) throws {
        var fields = fields
        for name in row.repeatedFields { fields.append(contentsOf: fields.filter { $0.0 == name }) }
        let response = try client.perform(fields, body: body)
        #expect(response.status == (row.reason == .success ? row.status : row.reason.status))
        if row.reason != .success { #expect(response.body == "{\"reason\":\"\(row.reason.text)\"}") }
        // The simulator returns a channel request's id as `apns-request-id`, and a push's id as `apns-id`. A
        // request with an unknown path is neither, so its response may have either field.
        let identifier = try #require(response.headers["apns-request-id"] ?? response.headers["apns-id"])
        if row.reason != .badPath { #expect(response.headers["apns-id"] == nil) }
        let sentIdentifier = fields.first { $0.0 == "apns-request-id" }?.1
        if sentIdentifier == SimulatorFixture.requestIdentifier, row.reason != .badPath {
            #expect(identifier == sentIdentifier)
        } else {
            #expect(UUID(uuidString: identifier) != nil)
        }
    }

    @Test func `An app without the broadcast capability is told so, and loses its channels`() async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            let disablingBody = #"{"app":"\#(SimulatorFixture.app)","enabled":false}"#
            #expect(try await fixture.control("POST", "/broadcasts", disablingBody).status == 200)
            let refusalBody = "{\"reason\":\"FeatureNotEnabled\"}"
            let (push, management) = (try fixture.connect(), try fixture.connectToManagement())
            #expect(
                try push.perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1)).body == refusalBody
            )
            #expect(
                try management.perform(fixture.managementHeaders("POST"), body: SimulatorFixture.creationBody(1)).body
                    == refusalBody
            )
            let enablingBody = #"{"app":"\#(SimulatorFixture.app)","enabled":true}"#
            #expect(try await fixture.control("POST", "/broadcasts", enablingBody).status == 200)
            let response = try push.perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1))
            #expect(response.body == "{\"reason\":\"ChannelNotRegistered\"}")
        }
    }

    @Test func `In responses to broadcasts, the reason of a busy service has two words`() async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            var faults = Faults()
            faults.serviceUnavailableShare = 1
            try await fixture.simulator.setFaults(faults)
            let broadcast = try fixture.connect()
                .perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1))
            #expect(broadcast.status == 503 && broadcast.body == "{\"reason\":\"Service Unavailable\"}")
            let push = try fixture.connect().perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(push.body == "{\"reason\":\"ServiceUnavailable\"}")
        }
    }
}
