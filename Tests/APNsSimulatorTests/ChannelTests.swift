import APNsSimulator
import Foundation
import Testbed
import Testing

/// Channels and their subscribers, as a producer's server and as phones see them.
@Suite(.ownThread) struct ChannelTests {
    private typealias Object = [String: Any]

    @Test func `A channel is created, read, listed and deleted`() async throws {
        try await SimulatorFixture.run { fixture in
            let (storingChannel, plainChannel) = (
                try fixture.createChannel(storesNewestMessage: true),
                try fixture.createChannel(storesNewestMessage: false)
            )
            let client = try fixture.connectToManagement()
            let pathField = ":path"
            func list() throws -> [String] {
                let response = try client.perform(
                    fixture.managementHeaders("GET", [pathField: "/1/apps/\(SimulatorFixture.app)/all-channels"]),
                    body: ""
                )
                #expect(response.status == 200)
                let object = try JSONSerialization.jsonObject(with: Data(response.body.utf8)) as? Object
                return try #require(object?["channels"] as? [String])
            }
            #expect(try list() == [storingChannel, plainChannel])
            let readResponse = try client.perform(
                fixture.managementHeaders("GET", ["apns-channel-id": plainChannel]),
                body: ""
            )
            #expect(readResponse.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
            let deletionHeaders = fixture.managementHeaders("DELETE", ["apns-channel-id": storingChannel])
            #expect(try client.perform(deletionHeaders, body: "").status == 204)
            #expect(try list() == [plainChannel])
            #expect(try client.perform(deletionHeaders, body: "").body == "{\"reason\":\"ChannelNotRegistered\"}")
            let stats = try await fixture.control("GET", "/stats").object
            #expect(stats["channelsCreated"] as? Int == 2 && stats["channelsDeleted"] as? Int == 1)
            #expect(stats["managementRequests"] as? Int == 7 && stats["requests"] as? Int == 0)
        }
    }

    @Test func `An app has at most ten thousand channels`() async throws {
        try await SimulatorFixture.run { fixture in
            try await fixture.simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                for _ in 0..<9_999 {
                    _ = try devices.createChannel(
                        app: SimulatorFixture.app,
                        storesNewestMessage: true,
                        nowMilliseconds: nowMilliseconds
                    )
                }
            }
            let lastChannel = try fixture.createChannel(storesNewestMessage: true)
            let client = try fixture.connectToManagement()
            let refusedResponse = try client.perform(
                fixture.managementHeaders("POST"),
                body: SimulatorFixture.creationBody(1)
            )
            #expect(
                refusedResponse.status == 400 && refusedResponse.body == "{\"reason\":\"CannotCreateChannelConfig\"}"
            )
            // The list is longer than a stream's window, so the simulator sends it in parts.
            let path = "/1/apps/\(SimulatorFixture.app)/all-channels"
            let response = try client.perform(fixture.managementHeaders("GET", [":path": path]), body: "")
            let object = try JSONSerialization.jsonObject(with: Data(response.body.utf8)) as? Object
            #expect((object?["channels"] as? [String])?.count == 10_000)
            let deletionHeaders = fixture.managementHeaders("DELETE", ["apns-channel-id": lastChannel])
            #expect(try client.perform(deletionHeaders, body: "").status == 204)
            #expect(
                try client.perform(fixture.managementHeaders("POST"), body: SimulatorFixture.creationBody(1)).status
                    == 201
            )
        }
    }

    @Test func `One broadcast reaches all subscribers and nobody else`() async throws {
        try await SimulatorFixture.run { fixture in
            let (channel, otherChannel) = (
                try fixture.createChannel(storesNewestMessage: true),
                try fixture.createChannel(storesNewestMessage: true)
            )
            let cursorBefore = try await fixture.simulator.registrations(since: 0).next
            let installation =
                #"{"app":"\#(SimulatorFixture.app)","prefix":"fan-","count":50,"channels":true,"audiences":["final"]}"#
            #expect(try await fixture.control("POST", "/phones", installation).status == 200)
            let records = try await fixture.control("GET", "/registrations?since=\(cursorBefore)").object
            let values = try #require((records["registrations"] as? [Object])?.compactMap { $0["value"] as? Object })
            #expect(values.count == 50)
            #expect(values.allSatisfy { $0["channels"] as? Bool == true && $0["audiences"] as? [String] == ["final"] })
            let activities = """
                {"app":"\(SimulatorFixture.app)","prefix":"a-","devicePrefix":"fan-","count":50,\
                "attributesType":"MatchAttributes","attributes":{"matchId":"m"},"contentState":{"home":0,"away":0},\
                "timestamp":\(time(nil) - 60),"channel":"\(channel)"}
                """
            let started = try await fixture.control("POST", "/activities", activities)
            #expect(started.status == 200 && (started.object["registrations"] as? [Object])?.isEmpty == true)
            let startedPhone = try await fixture.startByPush("m7", device: "by-push", channel: channel)
            #expect(startedPhone.effects == ["started": 1] && startedPhone.supportsChannels)
            #expect(
                try await fixture.startByPush("m8", device: "elsewhere", channel: otherChannel).effects == [
                    "started": 1
                ]
            )
            // Two push-to-start tokens are registered. The activities are on a channel, so they have no update token.
            let newRegistrations = try await fixture.simulator.registrations(since: cursorBefore + 50).records
            #expect(newRegistrations.map(\.key) == ["by-push/MatchAttributes", "elsewhere/MatchAttributes"])

            let response = try fixture.connect()
                .perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 3))
            #expect(response.status == 200 && response.body.isEmpty && response.headers["apns-id"] == nil)
            #expect(try await fixture.shownHomeScore("a-0") == 3)
            #expect(try await fixture.shownHomeScore("a-49") == 3)
            #expect(try await fixture.shownHomeScore("m7") == 3)
            #expect(try await fixture.shownHomeScore("m8") == 0)
            #expect(try await fixture.shownHomeScore("m1") == 0)
            let list = try #require(
                try await fixture.control("GET", "/channels?app=\(SimulatorFixture.app)").object["channels"]
                    as? [Object]
            )
            #expect(
                list.map { $0["subscribers"] as? Int } == [51, 1] && list.map { $0["broadcasts"] as? Int } == [1, 0]
            )
            let summary = try await fixture.control("GET", "/summary").object
            #expect((summary["activities"] as? [String: Int])?["onChannels"] == 52)
            #expect((summary["activities"] as? [String: Int])?["reachedByBroadcasts"] == 51)
            #expect(summary["broadcastsReceived"] as? Int == 51)
            #expect(try await fixture.readActivity("a-0")["broadcastsReceived"] as? Int == 1)
            #expect(try await fixture.readActivity("m8")["broadcastsReceived"] as? Int == 0)
        }
    }

    @Test func `A start on a channel that does not exist fails`() async throws {
        try await SimulatorFixture.run { fixture in
            let startedPhone = try await fixture.startByPush("m9", device: "late", channel: "AAAAAAAAAAAAAAAAAAAAAA==")
            #expect(startedPhone.effects == ["unknownChannel": 1])
            #expect(try await fixture.control("GET", "/activity?app=\(SimulatorFixture.app)&activity=m9").status == 404)
        }
    }

    @Test func `A phone treats old states and ends from a channel like those from pushes`() async throws {
        try await SimulatorFixture.run(\.channelRules, ChannelRules(broadcastBudget: nil)) { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            _ = try await fixture.startByPush("m7", device: "by-push", channel: channel)
            let (client, nowSeconds) = (try fixture.connect(), time(nil))
            func send(_ body: String) throws {
                #expect(try client.perform(fixture.broadcastHeaders(channel), body: body).status == 200)
            }
            try send(fixture.update(home: 2, timestamp: nowSeconds))
            try send(fixture.update(home: 1, timestamp: nowSeconds - 5))
            try send(#"{"aps":{"timestamp":\#(nowSeconds),"event":"start"}}"#)
            try send(#"{"aps":{"timestamp":\#(nowSeconds + 1),"event":"end","content-state":{"home":4,"away":0}}}"#)
            try send(fixture.update(home: 5, timestamp: nowSeconds + 2))
            #expect(try await fixture.shownHomeScore("m7") == 4)
            let effects = try await fixture.effects("m7")
            #expect(effects == ["started": 1, "shown": 1, "ignoredOld": 1, "wrongToken": 1, "ended": 1])
            #expect(try await fixture.readActivity("m7")["state"] as? String == "ended")
        }
    }

    /// A phone that was offline gets the newest message of a channel with storage once. From a channel without
    /// storage, the phone gets none of the messages that it missed.
    @Test(arguments: [true, false]) func `A phone that comes back gets the stored message`(_ storesNewestMessage: Bool)
        async throws
    {
        try await SimulatorFixture.run(\.channelRules, ChannelRules(broadcastBudget: nil)) { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: storesNewestMessage)
            _ = try await fixture.startByPush("m7", device: "by-push", channel: channel)
            let client = try fixture.connect()
            let expiration = storesNewestMessage ? "\(time(nil) + 3_600)" : "0"
            func send(_ home: Int, _ offset: Int) throws {
                let fields = fixture.broadcastHeaders(channel, ["apns-expiration": expiration])
                let body = fixture.update(home: home, timestamp: time(nil) + offset)
                #expect(try client.perform(fields, body: body).status == 200)
            }
            let devices = #"{"app":"\#(SimulatorFixture.app)","devices":["by-push"]}"#
            try send(1, 0)
            #expect(try await fixture.control("POST", "/offline", devices).status == 200)
            // The phone got this message before it went offline, so APNs does not send the message again.
            #expect(try await fixture.control("POST", "/online", devices).status == 200)
            #expect(try await fixture.effects("m7") == ["started": 1, "shown": 1])
            #expect(try await fixture.control("POST", "/offline", devices).status == 200)
            try send(2, 1)
            try send(3, 2)
            #expect(try await fixture.shownHomeScore("m7") == 1)
            #expect(try await fixture.control("POST", "/online", devices).status == 200)
            #expect(try await fixture.shownHomeScore("m7") == (storesNewestMessage ? 3 : 1))
            let effects = try await fixture.effects("m7")
            #expect(effects["missed"] == 2 && effects["shown"] == (storesNewestMessage ? 2 : 1))
        }
    }

    @Test func `A stored message is deleted after its expiration`() async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            _ = try await fixture.startByPush("m7", device: "by-push", channel: channel)
            let devices = #"{"app":"\#(SimulatorFixture.app)","devices":["by-push"]}"#
            #expect(try await fixture.control("POST", "/offline", devices).status == 200)
            let fields = fixture.broadcastHeaders(channel, ["apns-expiration": "\(time(nil) + 60)"])
            #expect(try fixture.connect().perform(fields, body: fixture.update(home: 2)).status == 200)
            #expect(try await fixture.control("POST", "/clock", #"{"advanceMilliseconds":61000}"#).status == 200)
            #expect(try await fixture.control("POST", "/online", devices).status == 200)
            #expect(try await fixture.shownHomeScore("m7") == 0)
        }
    }

    @Test func `Only a channel that is sent to too often is throttled`() async throws {
        let rules = ChannelRules(broadcastBudget: .init(capacity: 2, refillIntervalMilliseconds: 60_000))
        try await SimulatorFixture.run(\.channelRules, rules) { fixture in
            let (channel, otherChannel) = (
                try fixture.createChannel(storesNewestMessage: true),
                try fixture.createChannel(storesNewestMessage: true)
            )
            let client = try fixture.connect()
            func status(_ channel: String) throws -> Int {
                try client.perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1)).status
            }
            #expect(
                try [status(channel), status(channel), status(channel), status(otherChannel)] == [200, 200, 429, 200]
            )
            #expect(try await fixture.control("POST", "/clock", #"{"advanceMilliseconds":60000}"#).status == 200)
            #expect(try [status(channel), status(channel)] == [200, 429])
        }
    }

    /// The management service creates the channel, but resets the stream instead of responding.
    @Test func `Faults of the management interface affect no broadcast`() async throws {
        try await SimulatorFixture.run { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            let faults = #"{"resetShare":1}"#
            #expect(try await fixture.control("PUT", "/management/faults", faults).status == 200)
            let lostResponse = try fixture.connectToManagement()
                .perform(fixture.managementHeaders("POST"), body: SimulatorFixture.creationBody(1))
            #expect(lostResponse.status == 0 && lostResponse.errorCode == 2)
            let broadcastResponse = try fixture.connect()
                .perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1))
            #expect(broadcastResponse.status == 200)
            let channelIdentifiers = try await fixture.simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
                try devices.channelIdentifiers(app: SimulatorFixture.app)
            }
            #expect(channelIdentifiers.count == 2 && channelIdentifiers.first == channel)
            #expect(try await fixture.control("DELETE", "/management/faults").status == 200)
            _ = try fixture.createChannel(storesNewestMessage: true)
        }
    }

    @Test func `The control interface creates and deletes channels`() async throws {
        try await SimulatorFixture.run { fixture in
            let testChannel = try fixture.createChannel(storesNewestMessage: true)
            let createdResponse = try await fixture.control(
                "POST",
                "/channels",
                #"{"app":"\#(SimulatorFixture.app)","storage":"none"}"#
            )
            let controlChannel = try #require(createdResponse.object["channel"] as? String)
            let deletionHeaders = #"{"app":"\#(SimulatorFixture.app)","channel":"\#(testChannel)"}"#
            #expect(try await fixture.control("POST", "/channels/delete", deletionHeaders).status == 200)
            #expect(try await fixture.control("POST", "/channels/delete", deletionHeaders).status == 404)
            let list = try #require(
                try await fixture.control("GET", "/channels?app=\(SimulatorFixture.app)").object["channels"]
                    as? [Object]
            )
            #expect(list.map { $0["channel"] as? String } == [testChannel, controlChannel])
            #expect(list.map { $0["storage"] as? String } == ["newest", "none"])
            #expect(list.map { $0["deletedAt"] != nil } == [true, false])
            for (path, body, status) in [
                ("/channels", #"{"app":"\#(SimulatorFixture.app)","storage":"some"}"#, 400),
                ("/channels", #"{"app":"none"}"#, 404),
                ("/broadcasts", #"{"app":"\#(SimulatorFixture.app)"}"#, 400),
                ("/offline", #"{"app":"\#(SimulatorFixture.app)"}"#, 400),
                ("/online", #"{"app":"\#(SimulatorFixture.app)","devices":["none"]}"#, 404),
            ] {
                #expect(try await fixture.control("POST", path, body).status == status, "\(path) \(body)")
            }
            let app = #""app":"\#(SimulatorFixture.app)""#
            #expect(try await fixture.control("POST", "/broadcasts", "{\(app),\"enabled\":false}").status == 200)
            let refusedResponse = try await fixture.control("POST", "/channels", "{\(app)}")
            #expect(refusedResponse.status == 409 && refusedResponse.object["error"] as? String == "conflict")
            let reason = "app \(SimulatorFixture.app) has no capability for broadcasts"
            #expect(refusedResponse.object["reason"] as? String == reason)
        }
    }

    @Test func `The push log has broadcasts, but no management requests`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.path("pushes.jsonl")
        try await SimulatorFixture.run(\.pushLogFile, file) { fixture in
            let channel = try fixture.createChannel(storesNewestMessage: true)
            _ = try fixture.connect().perform(fixture.broadcastHeaders(channel), body: fixture.update(home: 1))
            // The simulator writes the log line before it responds to this call, so the file has the line afterwards.
            _ = try await fixture.control("GET", "/stats")
            let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 1)
            let line = try #require(try JSONSerialization.jsonObject(with: Data(lines[0].utf8)) as? Object)
            #expect(line["channel"] as? String == channel && line["app"] as? String == SimulatorFixture.app)
            #expect(line["status"] as? Int == 200 && line["token"] == nil && line["event"] as? String == "update")
        }
    }
}
