import APNsSimulator
import Foundation
import Testing

/// Requests to the simulator's broadcast service and to its channel management.
extension SimulatorFixture {
    static let requestIdentifier = "11111111-2222-3333-4444-555555555555"

    func connectToManagement() throws -> H2Client {
        try H2Client(port: simulator.managementPort, caFile: caFile)
    }

    func broadcastHeaders(_ channel: String, _ changes: [String: String?] = [:]) -> [(String, String)] {
        applying(
            [
                (":method", "POST"), (":scheme", "https"), (":authority", "localhost"),
                (":path", "/4/broadcasts/apps/" + SimulatorFixture.app), ("authorization", "bearer " + providerToken),
                ("apns-push-type", "liveactivity"), ("apns-channel-id", channel), ("apns-priority", "5"),
                ("apns-expiration", "0"), ("apns-request-id", SimulatorFixture.requestIdentifier),
            ],
            changes
        )
    }

    func managementHeaders(_ method: String, _ changes: [String: String?] = [:]) -> [(String, String)] {
        applying(
            [
                (":method", method), (":scheme", "https"), (":authority", "localhost"),
                (":path", "/1/apps/\(SimulatorFixture.app)/channels"), ("authorization", "bearer " + providerToken),
                ("apns-request-id", SimulatorFixture.requestIdentifier),
            ],
            changes
        )
    }

    private func applying(_ fields: [(String, String)], _ changes: [String: String?]) -> [(String, String)] {
        var fields = fields
        for (name, value) in changes {
            let index = fields.firstIndex { $0.0 == name } ?? fields.count
            fields.removeAll { $0.0 == name }
            if let value { fields.insert((name, value), at: index) }
        }
        return fields
    }

    static func creationBody(_ policy: Int) -> String {
        #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#
    }

    /// Creates a channel, as a producer's server does.
    func createChannel(storesNewestMessage: Bool) throws -> String {
        let response = try connectToManagement()
            .perform(managementHeaders("POST"), body: Self.creationBody(storesNewestMessage ? 1 : 0))
        #expect(response.status == 201 && response.body.isEmpty)
        #expect(
            response.headers["apns-request-id"] == SimulatorFixture.requestIdentifier
                && response.headers["apns-id"] == nil
        )
        return try #require(response.headers["apns-channel-id"])
    }

    /// Installs the app on another phone, and starts an activity on that phone by a push that names the
    /// channel.
    func startByPush(_ match: String, device: String, channel: String) async throws -> StartedPhone {
        try await simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
            try devices.install(
                app: SimulatorFixture.app,
                device: device,
                supportsChannels: true,
                nowMilliseconds: nowMilliseconds
            )
        }
        let token = try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            try devices.pushToStartToken(ofDevice: device, attributesType: "MatchAttributes", app: SimulatorFixture.app)
        }
        let body = """
            {"aps":{"timestamp":\(time(nil) - 60),"event":"start","attributes-type":"MatchAttributes",\
            "attributes":{"matchId":"\(match)"},"content-state":{"home":0,"away":0},"input-push-channel":"\(channel)",\
            "alert":{"title":"Kick-off","body":"Now"}}}
            """
        let response = try connect().perform(headers(token: token), body: body)
        #expect(response.status == 200)
        let phone = try await control("GET", "/phone?app=\(SimulatorFixture.app)&device=\(device)").object
        return StartedPhone(
            effects: phone["effects"] as? [String: Int] ?? [:],
            supportsChannels: phone["channels"] as? Bool ?? false
        )
    }

    /// Returns the simulator's JSON about an activity. It has the content state on the phone and the number of pushes
    /// with each effect.
    func readActivity(_ activity: String) async throws -> [String: Any] {
        try await control("GET", "/activity?app=\(SimulatorFixture.app)&activity=\(activity)").object
    }

    func shownHomeScore(_ activity: String) async throws -> Int? {
        (try await readActivity(activity)["contentState"] as? [String: Int])?["home"]
    }

    func effects(_ activity: String) async throws -> [String: Int] {
        try await readActivity(activity)["effects"] as? [String: Int] ?? [:]
    }
}

struct StartedPhone {
    var effects: [String: Int]
    var supportsChannels: Bool
}
