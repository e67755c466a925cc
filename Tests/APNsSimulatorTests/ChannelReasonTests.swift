import APNsSimulator
import Foundation
import Testbed
import Testing

/// Every reason of Apple's table for broadcasts and channels that a request can cause.
@Suite(.ownThread) struct ChannelReasonTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var method = "POST"
        var changes: [String: String?] = [:]
        var extra: [String] = []
        var body: String?
        var status = 200
        var reason: Reason
        var testDescription: String { name }
    }

    private static let spaces = String(repeating: " ", count: 5_118)
    private static let unknown = "AAAAAAAAAAAAAAAAAAAAAA=="

    static let broadcasts: [Row] = [
        Row(name: "in order", reason: .success),
        Row(name: "GET", method: "GET", reason: .methodNotAllowed),
        Row(name: "no app", changes: [":path": "/4/broadcasts/apps/"], reason: .badPath),
        Row(name: "more behind the app", changes: [":path": "/4/broadcasts/apps/a/b"], reason: .badPath),
        Row(name: "management here", changes: [":path": "/1/apps/\(Scene.app)/channels"], reason: .badPath),
        Row(name: "repeated channel", extra: ["apns-channel-id"], reason: .badRequestParams),
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
            changes: [":path": "/4/broadcasts/apps/\(Scene.topic)"],
            reason: .topicDisallowed
        ),
        Row(
            name: "another team's app",
            changes: [":path": "/4/broadcasts/apps/com.example.other"],
            reason: .topicDisallowed
        ),
        Row(name: "unknown channel", changes: ["apns-channel-id": unknown], reason: .channelNotRegistered),
        Row(
            name: "to be stored where nothing is",
            changes: ["apns-expiration": "9999999999"],
            reason: .badExpirationDate
        ),
    ]

    @Test(arguments: broadcasts) func `Broadcasts are refused with each reason`(_ row: Row) async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: false)
            var headers = scene.broadcastHeaders(channel, row.changes)
            headers[0].1 = row.method
            try check(row, headers, scene.connect(), body: row.body ?? scene.update(home: 1))
        }
    }

    static let requests: [Row] = [
        Row(name: "created", status: 201, reason: .success),
        Row(name: "read", method: "GET", body: "", reason: .success),
        Row(name: "deleted", method: "DELETE", body: "", status: 204, reason: .success),
        Row(name: "PUT", method: "PUT", reason: .methodNotAllowed),
        Row(name: "list by POST", changes: [":path": "/1/apps/\(Scene.app)/all-channels"], reason: .methodNotAllowed),
        Row(name: "another path", changes: [":path": "/1/apps/\(Scene.app)/channel"], reason: .badPath),
        Row(name: "a broadcast here", changes: [":path": "/4/broadcasts/apps/\(Scene.app)"], reason: .badPath),
        Row(name: "a push here", changes: [":path": "/3/device/00"], reason: .badPath),
        Row(name: "no authorization", changes: ["authorization": nil as String?], reason: .missingProviderToken),
        Row(name: "not a token", changes: ["authorization": "bearer a.b.c"], reason: .invalidProviderToken),
        Row(name: "request id is no UUID", changes: ["apns-request-id": "1"], reason: .badMessageId),
        Row(name: "no body", body: "", reason: .payloadEmpty),
        Row(name: "no JSON", body: "{", reason: .badRequestPayload),
        Row(name: "no policy", body: #"{"push-type":"LiveActivity"}"#, reason: .missingChannelQueueSize),
        Row(name: "policy 2", body: Scene.creation(2), reason: .badRequestParams),
        Row(name: "no type", body: #"{"message-storage-policy":1}"#, reason: .missingPushType),
        Row(
            name: "type of the header",
            body: #"{"message-storage-policy":1,"push-type":"liveactivity"}"#,
            reason: .invalidPushType
        ),
        Row(
            name: "app with the topic's suffix",
            changes: [":path": "/1/apps/\(Scene.topic)/channels"],
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
            changes: ["apns-channel-id": unknown],
            body: "",
            reason: .channelNotRegistered
        ),
    ]

    @Test(arguments: requests) func `Management requests are refused with each reason`(_ row: Row) async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: true)
            var changes = row.changes
            if row.method != "POST", !changes.keys.contains("apns-channel-id") { changes["apns-channel-id"] = channel }
            let headers = scene.managementHeaders(row.method, changes)
            try check(row, headers, scene.connectToManagement(), body: row.body ?? Scene.creation(1))
        }
    }

    private func check(_ row: Row, _ fields: [(String, String)], _ client: H2Client, body: String) throws {
        var fields = fields
        for name in row.extra { fields.append(contentsOf: fields.filter { $0.0 == name }) }
        let response = try client.perform(fields, body: body)
        #expect(response.status == (row.reason == .success ? row.status : row.reason.status))
        if row.reason != .success { #expect(response.body == "{\"reason\":\"\(row.reason.word)\"}") }
        // The simulator returns a channel request's id as `apns-request-id`, and a push's id as `apns-id`. A
        // request with an unknown path is neither, so its response may have either field.
        let identifier = try #require(response.headers["apns-request-id"] ?? response.headers["apns-id"])
        if row.reason != .badPath { #expect(response.headers["apns-id"] == nil) }
        let sent = fields.first { $0.0 == "apns-request-id" }?.1
        if sent == Scene.requestIdentifier, row.reason != .badPath {
            #expect(identifier == sent)
        } else {
            #expect(UUID(uuidString: identifier) != nil)
        }
    }

    @Test func `An app without the broadcast capability is told so, and loses its channels`() async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: true)
            let off = #"{"app":"\#(Scene.app)","enabled":false}"#
            #expect(try await scene.control("POST", "/broadcasts", off).status == 200)
            let refused = "{\"reason\":\"FeatureNotEnabled\"}"
            let (push, management) = (try scene.connect(), try scene.connectToManagement())
            #expect(try push.perform(scene.broadcastHeaders(channel), body: scene.update(home: 1)).body == refused)
            #expect(try management.perform(scene.managementHeaders("POST"), body: Scene.creation(1)).body == refused)
            let on = #"{"app":"\#(Scene.app)","enabled":true}"#
            #expect(try await scene.control("POST", "/broadcasts", on).status == 200)
            let response = try push.perform(scene.broadcastHeaders(channel), body: scene.update(home: 1))
            #expect(response.body == "{\"reason\":\"ChannelNotRegistered\"}")
        }
    }

    @Test func `A busy service says so in two words`() async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: true)
            var faults = Faults()
            faults.serviceUnavailableShare = 1
            try await scene.simulator.setFaults(faults)
            let broadcast = try scene.connect()
                .perform(scene.broadcastHeaders(channel), body: scene.update(home: 1))
            #expect(broadcast.status == 503 && broadcast.body == "{\"reason\":\"Service Unavailable\"}")
            let push = try scene.connect().perform(scene.headers(), body: scene.update(home: 1))
            #expect(push.body == "{\"reason\":\"ServiceUnavailable\"}")
        }
    }
}
