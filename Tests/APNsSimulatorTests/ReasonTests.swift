import APNsSimulator
import Foundation
import Testbed
import Testing

/// Sends valid and faulty pushes over TLS and HTTP/2, and checks the reason of each response.
@Suite(.ownThread) struct ReasonTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var changes: [String: String?] = [:]
        var repeatedFields: [String] = []
        var body: String?
        var token: String?
        var reason: SimulatedResponse
        var testDescription: String { name }
    }

    static let rows: [Row] = [
        Row(name: "in order", reason: .success),
        Row(name: "GET", changes: [":method": "GET"], reason: .methodNotAllowed),
        Row(name: "another path", changes: [":path": "/4/device/00"], reason: .badPath),
        Row(name: "no token", changes: [":path": "/3/device/"], reason: .missingDeviceToken),
        Row(name: "no token, no slash", changes: [":path": "/3/device"], reason: .missingDeviceToken),
        Row(name: "token is not hexadecimal", token: "xyz0", reason: .badDeviceToken),
        Row(name: "token of odd length", token: "abc", reason: .badDeviceToken),
        Row(name: "token is endless", token: String(repeating: "ab", count: 1_000), reason: .badDeviceToken),
        Row(name: "unknown token", token: String(repeating: "ab", count: 80), reason: .badDeviceToken),
        Row(name: "repeated priority", repeatedFields: ["apns-priority"], reason: .duplicateHeaders),
        Row(name: "repeated authorization", repeatedFields: ["authorization"], reason: .duplicateHeaders),
        Row(name: "no authorization", changes: ["authorization": nil as String?], reason: .missingProviderToken),
        Row(name: "not a bearer", changes: ["authorization": "basic abc"], reason: .invalidProviderToken),
        Row(name: "not a token", changes: ["authorization": "bearer a.b.c"], reason: .invalidProviderToken),
        Row(name: "no push type", changes: ["apns-push-type": nil as String?], reason: .invalidPushType),
        Row(name: "another push type", changes: ["apns-push-type": "alert"], reason: .invalidPushType),
        Row(name: "no topic", changes: ["apns-topic": nil as String?], reason: .missingTopic),
        Row(name: "not a topic", changes: ["apns-topic": "a b"], reason: .badTopic),
        Row(name: "endless topic", changes: ["apns-topic": String(repeating: "a", count: 300)], reason: .badTopic),
        Row(name: "unknown app", changes: ["apns-topic": "com.no.push-type.liveactivity"], reason: .topicDisallowed),
        Row(
            name: "another team's app",
            changes: ["apns-topic": "com.example.other.push-type.liveactivity"],
            reason: .topicDisallowed
        ),
        Row(
            name: "another app",
            changes: ["apns-topic": "com.example.sibling.push-type.liveactivity"],
            reason: .deviceTokenNotForTopic
        ),
        Row(
            name: "topic without suffix",
            changes: ["apns-topic": SimulatorFixture.app],
            reason: .deviceTokenNotForTopic
        ),
        Row(name: "priority 1", changes: ["apns-priority": "1"], reason: .badPriority),
        Row(name: "no priority", changes: ["apns-priority": nil as String?], reason: .success),
        Row(name: "expiration is no number", changes: ["apns-expiration": "soon"], reason: .badExpirationDate),
        Row(name: "expiration is negative", changes: ["apns-expiration": "-1"], reason: .badExpirationDate),
        Row(name: "id is no UUID", changes: ["apns-id": "1"], reason: .badMessageId),
        Row(name: "no id", changes: ["apns-id": nil as String?], reason: .success),
        Row(
            name: "collapse id of 64 bytes",
            changes: ["apns-collapse-id": String(repeating: "c", count: 64)],
            reason: .success
        ),
        Row(
            name: "collapse id of 65 bytes",
            changes: ["apns-collapse-id": String(repeating: "c", count: 65)],
            reason: .badCollapseId
        ),
        Row(name: "no body", body: "", reason: .payloadEmpty),
        Row(name: "4,096 bytes", body: String(repeating: " ", count: 4_096), reason: .success),
        Row(name: "4,097 bytes", body: String(repeating: " ", count: 4_097), reason: .payloadTooLarge),
        Row(name: "a body that only the phone minds", body: "{\"aps\":", reason: .success),
    ]

    @Test(arguments: rows) func `Pushes are refused with each reason`(_ row: Row) async throws {
        try await SimulatorFixture.run { fixture in
            var headers = fixture.headers(row.changes, token: row.token)
            for name in row.repeatedFields { headers.append(contentsOf: headers.filter { $0.0 == name }) }
            let response = try fixture.connect().perform(headers, body: row.body ?? fixture.update(home: 1))
            #expect(response.status == row.reason.status)
            #expect(response.body == (row.reason == .success ? "" : "{\"reason\":\"\(row.reason.text)\"}"))
            let sentIdentifier = headers.first { $0.0 == "apns-id" }?.1
            let identifier = try #require(response.headers["apns-id"])
            if let sentIdentifier, sentIdentifier.count == 36 {
                #expect(identifier == sentIdentifier)
            } else {
                #expect(UUID(uuidString: identifier) != nil && identifier == identifier.lowercased())
            }
            #expect(response.headers["apns-unique-id"] == nil)
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics[row.reason] == 1)
        }
    }

    @Test func `A response of the sandbox has a unique id`() async throws {
        try await SimulatorFixture.run(\.environment, .sandbox) { fixture in
            let response = try fixture.connect().perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(response.status == 200)
            let unique = try #require(response.headers["apns-unique-id"])
            #expect(UUID(uuidString: unique) != nil)
        }
    }

    @Test func `Tokens of the other environment are refused as bad`() async throws {
        try await SimulatorFixture.run { fixture in
            let token = try await fixture.simulator.withDevices {
                (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.install(
                    app: SimulatorFixture.app,
                    device: "debug",
                    environment: .sandbox,
                    nowMilliseconds: nowMilliseconds
                )
                return try devices.pushToStartToken(
                    ofDevice: "debug",
                    attributesType: "MatchAttributes",
                    app: SimulatorFixture.app
                )
            }
            let response = try fixture.connect().perform(fixture.headers(token: token), body: "{}")
            #expect(response.body == "{\"reason\":\"BadDeviceToken\"}")
        }
    }

    @Test func `The response to a retired token says since when it is retired`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            let beforeMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
            try await fixture.simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.dismiss(activity: "m1", app: SimulatorFixture.app, nowMilliseconds: nowMilliseconds)
            }
            let endedResponse = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(endedResponse.status == 410)
            let body = try JSONDecoder().decode(RetiredTokenBody.self, from: Data(endedResponse.body.utf8))
            #expect(body.reason == "ExpiredToken")
            #expect(abs(body.timestamp - beforeMilliseconds) < 60_000)
            try await fixture.simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.uninstall(app: SimulatorFixture.app, device: "phone", nowMilliseconds: nowMilliseconds)
            }
            let unregisteredResponse = try client.perform(
                fixture.headers(token: fixture.startToken),
                body: fixture.update(home: 1)
            )
            let reason = try JSONDecoder().decode(RetiredTokenBody.self, from: Data(unregisteredResponse.body.utf8))
                .reason
            #expect(reason == "Unregistered")
            #expect(unregisteredResponse.status == 410)
        }
    }

    private struct RetiredTokenBody: Decodable {
        var reason: String
        var timestamp: Int64
    }

    @Test func `Many faults at once get one response`() async throws {
        try await SimulatorFixture.run { fixture in
            let headers = fixture.headers([
                "apns-topic": nil as String?, "apns-priority": "7", "authorization": nil as String?,
            ])
            let response = try fixture.connect().perform(headers, body: "")
            #expect(response.body == "{\"reason\":\"MissingProviderToken\"}")
        }
    }
}
