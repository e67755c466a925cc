import APNsSimulator
import Foundation
import Testbed
import Testing

/// Channels and their subscribers, as a producer's server and as phones see them.
@Suite(.ownThread) struct ChannelTests {
    private typealias Object = [String: Any]

    @Test func `A channel is created, read, listed and deleted`() async throws {
        try await Scene.run { scene in
            let (first, second) = (
                try scene.createChannel(storesNewest: true), try scene.createChannel(storesNewest: false)
            )
            let client = try scene.connectToManagement()
            let all = ":path"
            func list() throws -> [String] {
                let response = try client.perform(
                    scene.managementHeaders("GET", [all: "/1/apps/\(Scene.app)/all-channels"]),
                    body: ""
                )
                #expect(response.status == 200)
                let object = try JSONSerialization.jsonObject(with: Data(response.body.utf8)) as? Object
                return try #require(object?["channels"] as? [String])
            }
            #expect(try list() == [first, second])
            let read = try client.perform(scene.managementHeaders("GET", ["apns-channel-id": second]), body: "")
            #expect(read.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
            let deletion = scene.managementHeaders("DELETE", ["apns-channel-id": first])
            #expect(try client.perform(deletion, body: "").status == 204)
            #expect(try list() == [second])
            #expect(try client.perform(deletion, body: "").body == "{\"reason\":\"ChannelNotRegistered\"}")
            let stats = try await scene.control("GET", "/stats").object
            #expect(stats["channelsCreated"] as? Int == 2 && stats["channelsDeleted"] as? Int == 1)
            #expect(stats["managementRequests"] as? Int == 7 && stats["requests"] as? Int == 0)
        }
    }

    @Test func `An app has at most ten thousand channels`() async throws {
        try await Scene.run { scene in
            try await scene.simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
                for _ in 0..<9_999 {
                    _ = try devices.createChannel(app: Scene.app, storesNewest: true, nowMilliseconds: now)
                }
            }
            let last = try scene.createChannel(storesNewest: true)
            let client = try scene.connectToManagement()
            let refused = try client.perform(scene.managementHeaders("POST"), body: Scene.creation(1))
            #expect(refused.status == 400 && refused.body == "{\"reason\":\"CannotCreateChannelConfig\"}")
            // The list is longer than a stream's window, so the simulator sends it in parts.
            let path = "/1/apps/\(Scene.app)/all-channels"
            let response = try client.perform(scene.managementHeaders("GET", [":path": path]), body: "")
            let object = try JSONSerialization.jsonObject(with: Data(response.body.utf8)) as? Object
            #expect((object?["channels"] as? [String])?.count == 10_000)
            let deletion = scene.managementHeaders("DELETE", ["apns-channel-id": last])
            #expect(try client.perform(deletion, body: "").status == 204)
            #expect(try client.perform(scene.managementHeaders("POST"), body: Scene.creation(1)).status == 201)
        }
    }

    @Test func `One broadcast reaches all subscribers and nobody else`() async throws {
        try await Scene.run { scene in
            let (channel, other) = (
                try scene.createChannel(storesNewest: true), try scene.createChannel(storesNewest: true)
            )
            let before = try await scene.simulator.registrations(since: 0).next
            let start = #"{"app":"\#(Scene.app)","prefix":"fan-","count":50,"channels":true,"audiences":["final"]}"#
            #expect(try await scene.control("POST", "/phones", start).status == 200)
            let records = try await scene.control("GET", "/registrations?since=\(before)").object
            let values = try #require((records["registrations"] as? [Object])?.compactMap { $0["value"] as? Object })
            #expect(values.count == 50)
            #expect(values.allSatisfy { $0["channels"] as? Bool == true && $0["audiences"] as? [String] == ["final"] })
            let activities = """
                {"app":"\(Scene.app)","prefix":"a-","devicePrefix":"fan-","count":50,\
                "attributesType":"MatchAttributes","attributes":{"matchId":"m"},"contentState":{"home":0,"away":0},\
                "timestamp":\(time(nil) - 60),"channel":"\(channel)"}
                """
            let started = try await scene.control("POST", "/activities", activities)
            #expect(started.status == 200 && (started.object["registrations"] as? [Object])?.isEmpty == true)
            let row = try await scene.startByPush("m7", device: "by-push", channel: channel)
            #expect(row.effects == ["started": 1] && row.hasChannels)
            #expect(try await scene.startByPush("m8", device: "elsewhere", channel: other).effects == ["started": 1])
            // Two push-to-start tokens are registered. The activities are on a channel, so they have no
            // update token.
            let after = try await scene.simulator.registrations(since: before + 50).records
            #expect(after.map(\.key) == ["by-push", "elsewhere"])

            let response = try scene.connect()
                .perform(scene.broadcastHeaders(channel), body: scene.update(home: 3))
            #expect(response.status == 200 && response.body.isEmpty && response.headers["apns-id"] == nil)
            #expect(try await scene.home("a-0") == 3)
            #expect(try await scene.home("a-49") == 3)
            #expect(try await scene.home("m7") == 3)
            #expect(try await scene.home("m8") == 0)
            #expect(try await scene.home("m1") == 0)
            let list = try #require(
                try await scene.control("GET", "/channels?app=\(Scene.app)").object["channels"] as? [Object]
            )
            #expect(
                list.map { $0["subscribers"] as? Int } == [51, 1] && list.map { $0["broadcasts"] as? Int } == [1, 0]
            )
            let summary = try await scene.control("GET", "/summary").object
            #expect((summary["activities"] as? [String: Int])?["onChannels"] == 52)
            #expect((summary["activities"] as? [String: Int])?["reachedByBroadcasts"] == 51)
            #expect(summary["broadcastsReceived"] as? Int == 51)
            #expect(try await scene.screen("a-0")["broadcastsReceived"] as? Int == 1)
            #expect(try await scene.screen("m8")["broadcastsReceived"] as? Int == 0)
        }
    }

    @Test func `A start on a channel that is not there fails`() async throws {
        try await Scene.run { scene in
            let row = try await scene.startByPush("m9", device: "late", channel: "AAAAAAAAAAAAAAAAAAAAAA==")
            #expect(row.effects == ["unknownChannel": 1])
            #expect(try await scene.control("GET", "/activity?app=\(Scene.app)&activity=m9").status == 404)
        }
    }

    @Test func `Old states and ends on a channel follow the rules of pushes`() async throws {
        try await Scene.run(\.channelRules, ChannelRules(publishBudget: nil)) { scene in
            let channel = try scene.createChannel(storesNewest: true)
            _ = try await scene.startByPush("m7", device: "by-push", channel: channel)
            let (client, now) = (try scene.connect(), time(nil))
            func send(_ body: String) throws {
                #expect(try client.perform(scene.broadcastHeaders(channel), body: body).status == 200)
            }
            try send(scene.update(home: 2, timestamp: now))
            try send(scene.update(home: 1, timestamp: now - 5))
            try send(#"{"aps":{"timestamp":\#(now),"event":"start"}}"#)
            try send(#"{"aps":{"timestamp":\#(now + 1),"event":"end","content-state":{"home":4,"away":0}}}"#)
            try send(scene.update(home: 5, timestamp: now + 2))
            #expect(try await scene.home("m7") == 4)
            let effects = try await scene.effects("m7")
            #expect(effects == ["started": 1, "shown": 1, "ignoredOld": 1, "wrongToken": 1, "ended": 1])
            #expect(try await scene.screen("m7")["state"] as? String == "ended")
        }
    }

    /// A phone that was off line gets the newest message of a channel with storage once. A channel without
    /// storage sends it nothing.
    @Test(arguments: [true, false]) func `A phone that comes back gets the stored message`(_ storesNewest: Bool)
        async throws
    {
        try await Scene.run(\.channelRules, ChannelRules(publishBudget: nil)) { scene in
            let channel = try scene.createChannel(storesNewest: storesNewest)
            _ = try await scene.startByPush("m7", device: "by-push", channel: channel)
            let client = try scene.connect()
            let expiration = storesNewest ? "\(time(nil) + 3_600)" : "0"
            func send(_ home: Int, _ offset: Int) throws {
                let fields = scene.broadcastHeaders(channel, ["apns-expiration": expiration])
                let body = scene.update(home: home, timestamp: time(nil) + offset)
                #expect(try client.perform(fields, body: body).status == 200)
            }
            let devices = #"{"app":"\#(Scene.app)","devices":["by-push"]}"#
            try send(1, 0)
            #expect(try await scene.control("POST", "/offline", devices).status == 200)
            // The phone got these messages before it went off line, so APNs does not send them again.
            #expect(try await scene.control("POST", "/online", devices).status == 200)
            #expect(try await scene.effects("m7") == ["started": 1, "shown": 1])
            #expect(try await scene.control("POST", "/offline", devices).status == 200)
            try send(2, 1)
            try send(3, 2)
            #expect(try await scene.home("m7") == 1)
            #expect(try await scene.control("POST", "/online", devices).status == 200)
            #expect(try await scene.home("m7") == (storesNewest ? 3 : 1))
            let effects = try await scene.effects("m7")
            #expect(effects["missed"] == 2 && effects["shown"] == (storesNewest ? 2 : 1))
        }
    }

    @Test func `A stored message is deleted after its expiration`() async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: true)
            _ = try await scene.startByPush("m7", device: "by-push", channel: channel)
            let devices = #"{"app":"\#(Scene.app)","devices":["by-push"]}"#
            #expect(try await scene.control("POST", "/offline", devices).status == 200)
            let fields = scene.broadcastHeaders(channel, ["apns-expiration": "\(time(nil) + 60)"])
            #expect(try scene.connect().perform(fields, body: scene.update(home: 2)).status == 200)
            #expect(try await scene.control("POST", "/clock", #"{"advanceMilliseconds":61000}"#).status == 200)
            #expect(try await scene.control("POST", "/online", devices).status == 200)
            #expect(try await scene.home("m7") == 0)
        }
    }

    @Test func `Only a channel that is sent to too often is throttled`() async throws {
        let rules = ChannelRules(publishBudget: .init(capacity: 2, refillMilliseconds: 60_000))
        try await Scene.run(\.channelRules, rules) { scene in
            let (channel, other) = (
                try scene.createChannel(storesNewest: true), try scene.createChannel(storesNewest: true)
            )
            let client = try scene.connect()
            func status(_ channel: String) throws -> Int {
                try client.perform(scene.broadcastHeaders(channel), body: scene.update(home: 1)).status
            }
            #expect(try [status(channel), status(channel), status(channel), status(other)] == [200, 200, 429, 200])
            #expect(try await scene.control("POST", "/clock", #"{"advanceMilliseconds":60000}"#).status == 200)
            #expect(try [status(channel), status(channel)] == [200, 429])
        }
    }

    /// The management service creates the channel, but resets the stream instead of answering.
    @Test func `Faults of the management interface affect no broadcast`() async throws {
        try await Scene.run { scene in
            let channel = try scene.createChannel(storesNewest: true)
            let faults = #"{"resetShare":1}"#
            #expect(try await scene.control("PUT", "/management/faults", faults).status == 200)
            let lost = try scene.connectToManagement()
                .perform(scene.managementHeaders("POST"), body: Scene.creation(1))
            #expect(lost.status == 0 && lost.errorCode == 2)
            let sent = try scene.connect().perform(scene.broadcastHeaders(channel), body: scene.update(home: 1))
            #expect(sent.status == 200)
            let known = try await scene.simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
                try devices.channelIdentifiers(app: Scene.app)
            }
            #expect(known.count == 2 && known.first == channel)
            #expect(try await scene.control("DELETE", "/management/faults").status == 200)
            _ = try scene.createChannel(storesNewest: true)
        }
    }

    @Test func `The test may create and delete channels itself`() async throws {
        try await Scene.run { scene in
            let own = try scene.createChannel(storesNewest: true)
            let made = try await scene.control("POST", "/channels", #"{"app":"\#(Scene.app)","storage":"none"}"#)
            let foreign = try #require(made.object["channel"] as? String)
            let deletion = #"{"app":"\#(Scene.app)","channel":"\#(own)"}"#
            #expect(try await scene.control("POST", "/channels/delete", deletion).status == 200)
            #expect(try await scene.control("POST", "/channels/delete", deletion).status == 404)
            let list = try #require(
                try await scene.control("GET", "/channels?app=\(Scene.app)").object["channels"] as? [Object]
            )
            #expect(list.map { $0["channel"] as? String } == [own, foreign])
            #expect(list.map { $0["storage"] as? String } == ["newest", "none"])
            #expect(list.map { $0["deletedAt"] != nil } == [true, false])
            for (path, body, status) in [
                ("/channels", #"{"app":"\#(Scene.app)","storage":"some"}"#, 400),
                ("/channels", #"{"app":"none"}"#, 404),
                ("/broadcasts", #"{"app":"\#(Scene.app)"}"#, 400), ("/offline", #"{"app":"\#(Scene.app)"}"#, 400),
                ("/online", #"{"app":"\#(Scene.app)","devices":["none"]}"#, 404),
            ] {
                #expect(try await scene.control("POST", path, body).status == status, "\(path) \(body)")
            }
        }
    }

    @Test func `The log names broadcasts and no management requests`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.path("pushes.jsonl")
        try await Scene.run(\.pushLog, file) { scene in
            let channel = try scene.createChannel(storesNewest: true)
            _ = try scene.connect().perform(scene.broadcastHeaders(channel), body: scene.update(home: 1))
            // The log line is written before the simulator answers a later call of its control interface.
            _ = try await scene.control("GET", "/stats")
            let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 1)
            let line = try #require(try JSONSerialization.jsonObject(with: Data(lines[0].utf8)) as? Object)
            #expect(line["channel"] as? String == channel && line["app"] as? String == Scene.app)
            #expect(line["status"] as? Int == 200 && line["token"] == nil && line["event"] as? String == "update")
        }
    }
}
