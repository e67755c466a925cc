import Foundation
import Kafka
import Testbed
import Testing

/// If the worker that manages a channel is killed, no channel is lost. A reconciliation deletes the channels that the
/// killed worker left without an owner. When an audience has ended, its channel is deleted.
@Suite("Channels that a worker keeps", .ownThread, .timeLimit(.minutes(10)))
struct ChannelWorkerTests {
    private static let audience = "final"
    /// Some tests delay APNs' responses by 5 s. With a timeout of 7.5 s the worker still waits for them.
    private static let longRequestTimeoutVariables = ["CAUSEWAY_APNS_REQUEST_TIMEOUT_MILLISECONDS": "7500"]
    /// For a response that comes only after `creationMilliseconds`. On a busy machine, the test may need some seconds
    /// to notice that a creation has begun, and it must still be under way then.
    private static let slowCreationVariables = ["CAUSEWAY_APNS_REQUEST_TIMEOUT_MILLISECONDS": "20000"]
    private static let creationMilliseconds = 15_000

    private func makeCommand(_ number: Int, _ event: String = "update", expirationSeconds: Int? = nil)
        -> ChannelScene.Object
    {
        var command: ChannelScene.Object = [
            "app": ChannelScene.app, "audience": Self.audience, "id": "state-\(number)", "sequence": number,
            "aps": [
                "event": event, "timestamp": Int(Date().timeIntervalSince1970),
                "content-state": ["status": "inProgress", "distanceRemaining": Double(number)] as ChannelScene.Object,
            ] as ChannelScene.Object,
        ]
        command["expiration"] = expirationSeconds
        return command
    }

    /// Returns the audience's channel in the registry, which is in Redis.
    private func registeredChannel(_ scene: ChannelScene) throws -> String? {
        try scene.run("list").outputLines.first { $0.hasPrefix("\(Self.audience) ") }
            .map { String($0.split(separator: " ")[1]) }
    }

    /// Waits until the worker has compared the registry with APNs' list, as one of the workers does once a day.
    private func awaitFirstReconciliation(_ scene: ChannelScene, noting foreignChannel: String) throws {
        let key = "{channels:\(ChannelScene.app):production}"
        try scene.await("the foreign channel is noted") {
            try scene.redis.ask("HEXISTS", key, "f:\(foreignChannel)") == "1" ? true : nil
        }
    }

    /// Takes the lease for one kind of reconciliation (`daily` or `intents`), so that no worker begins such a
    /// reconciliation.
    private func takeLease(_ name: String, _ scene: ChannelScene) throws {
        let key = "{channels:\(ChannelScene.app):production}turn:\(name)"
        #expect(try scene.redis.ask("SET", key, "test", "PX", "3600000").hasPrefix("OK"))
    }

    /// Runs `causeway channels reconcile`, again and again until no creation of a channel is in progress.
    private func reconcile(_ scene: ChannelScene) throws -> String {
        try scene.await("no creation is under way") {
            let run = try scene.run("reconcile")
            #expect(run.exitCode == 0 || run.errors.contains("being created"), "\(run.errors)")
            return run.exitCode == 0 ? run.output : nil
        }
    }

    /// APNs has created the channel, but the worker dies before the response comes. The next worker creates
    /// another channel.
    @Test func `If a worker dies before APNs' response, a reconciliation deletes the channel without an owner`() throws
    {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let worker = try scene.startWorker(
            ["CHANNELS_AUDIENCES": Self.audience],
            environment: Self.longRequestTimeoutVariables
        )
        try awaitFirstReconciliation(scene, noting: foreignChannel)
        // The killed worker will leave an intent. Because of this intent, the next worker would itself reconcile, and
        // delete the orphan. The test takes the lease, so that no worker reconciles, and only the command below deletes
        // the orphan.
        try takeLease("intents", scene)

        try scene.delayResponses(milliseconds: 5_000)
        try scene.send(makeCommand(1))
        let orphanChannel = try scene.await("a second channel") {
            try scene.channelIdentifiers().first { $0 != foreignChannel }
        }
        worker.killAtOnce()
        try scene.stopDelayingResponses()
        #expect(try registeredChannel(scene) == nil, "the kill came too late")

        let successor = try scene.startWorker(
            ["CHANNELS_AUDIENCES": Self.audience],
            environment: Self.longRequestTimeoutVariables
        )
        try scene.send(makeCommand(2))
        let ownChannel = try scene.await("a channel in the registry") { try registeredChannel(scene) }
        #expect(ownChannel != orphanChannel)
        #expect(try Set(scene.channelIdentifiers()) == [foreignChannel, orphanChannel, ownChannel])
        // A command waits at most two seconds for its channel. On a slow machine the second command may have been sent
        // without a broadcast, so the test sends commands until one is broadcast.
        var number = 2
        try scene.await("a broadcast") {
            number += 1
            try scene.send(makeCommand(number))
            return try scene.listedChannels().contains { $0.identifier == ownChannel && $0.broadcasts > 0 } ? true : nil
        }

        let summary = try reconcile(scene)
        #expect(
            summary.contains("deleted without an owner: 1,") && summary.contains("of other programs: 1"),
            "\(summary)"
        )
        #expect(try scene.channelIdentifiers() == [foreignChannel, ownChannel])
        #expect(try reconcile(scene).contains("deleted without an owner: 0,"))

        let deletingRun = try scene.run("reconcile", "--delete-unknown")
        #expect(deletingRun.exitCode == 0 && deletingRun.output.contains("deleted without an owner: 1,"))
        #expect(try scene.channelIdentifiers() == [ownChannel] && registeredChannel(scene) == ownChannel)
        #expect(successor.terminate() == 0)
    }

    /// After an interrupted attempt, a worker soon compares the registry with APNs' list. It must not wait for the
    /// daily comparison: until then, a channel of another program could be taken for the attempt's channel. In the
    /// test, the daily comparison was three minutes ago, and the attempt began two minutes ago.
    @Test func `A channel that an interrupted attempt left is deleted before the next daily reconciliation`() throws {
        let scene = try ChannelScene()
        let ownChannel = try scene.createChannel(of: "semifinal")
        let orphanChannel = try scene.createForeignChannel()
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        let intent =
            #"{"audience":"final","createdAt":\#(nowMilliseconds - 120_000),"identifier":"1","worker":"host/1"}"#
        let key = "{channels:\(ChannelScene.app):production}"
        _ = try scene.redis.ask("HSET", key, "i:1", intent, "r:", "\(nowMilliseconds - 180_000)")
        try takeLease("daily", scene)
        try #require(scene.channelIdentifiers() == [ownChannel, orphanChannel])
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": Self.audience])
        try scene.await("the channel is deleted") { try scene.channelIdentifiers() == [ownChannel] ? true : nil }
        try scene.await("the intent is removed") { try scene.redis.ask("HEXISTS", key, "i:1") == "0" ? true : nil }
        #expect(worker.terminate() == 0)
    }

    /// The worker dies when the channel is in the registry but not yet in the topic `causeway.channels`. No channel is
    /// lost, and none is created twice.
    @Test func `If a worker dies before it has published a channel, a reconciliation publishes it`() throws {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let worker = try scene.startWorker(
            ["CHANNELS_AUDIENCES": Self.audience],
            environment: Self.longRequestTimeoutVariables
        )
        try awaitFirstReconciliation(scene, noting: foreignChannel)

        try scene.delayResponses(milliseconds: 2_000)
        try scene.send(makeCommand(1))
        // APNs has the channel. Kafka becomes unreachable before the worker gets APNs' response.
        let ownChannel = try scene.await("a second channel") {
            try scene.channelIdentifiers().first { $0 != foreignChannel }
        }
        try scene.broker.takeDown()
        let recordedChannel = try scene.await("a channel in the registry") { try registeredChannel(scene) }
        worker.killAtOnce()
        try scene.stopDelayingResponses()
        try scene.broker.bringUp()
        #expect(recordedChannel == ownChannel)

        let summary = try reconcile(scene)
        #expect(summary.contains("deleted without an owner: 0,") && summary.contains("published: 1,"), "\(summary)")
        let record = try TopicReader(scene.broker, topic: "causeway.channels").read(1)[0]
        #expect(record.key == "\(ChannelScene.app)/production/\(Self.audience)" && record.value.contains(ownChannel))
        #expect(
            try scene.channelIdentifiers() == [foreignChannel, ownChannel] && registeredChannel(scene) == ownChannel
        )
    }

    /// While APNs stores the end for phones that are offline, the channel must stay.
    @Test func `A channel outlives its audience's end while a message may be stored`() throws {
        let scene = try ChannelScene()
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": Self.audience, "CHANNELS_KEEP_SECONDS": "0"])
        try scene.send(makeCommand(1))
        let channel = try scene.await("a channel in the registry") { try registeredChannel(scene) }
        let expirationSeconds = Int(Date().timeIntervalSince1970) + 20
        try scene.send(makeCommand(2, "end", expirationSeconds: expirationSeconds))
        try scene.await("the end on the channel") {
            try scene.listedChannels().contains { $0.identifier == channel && $0.broadcasts == 2 } ? true : nil
        }
        #expect(try scene.run("list").output.contains("deleted in "))
        #expect(try scene.run("reconcile").output.contains("deleted when due: 0,"))
        #expect(try scene.channelIdentifiers() == [channel])
        try #require(Int(Date().timeIntervalSince1970) < expirationSeconds, "the machine is too slow for this test")

        // The worker deletes the channel when it next checks the registry.
        try scene.await("the channel is deleted") { try scene.channelIdentifiers().isEmpty ? true : nil }
        #expect(Int(Date().timeIntervalSince1970) >= expirationSeconds)
        try scene.await("the registry forgets the channel") { try registeredChannel(scene) == nil ? true : nil }
        let reader = try TopicReader(scene.broker, topic: "causeway.channels")
        var records = try reader.read(3)
        // The worker may publish the planned deletion before it deletes the channel.
        if records.last?.value.isEmpty == false { records += try reader.read(1) }
        #expect(records.map { $0.value.isEmpty } == [Bool](repeating: false, count: records.count - 1) + [true])
        #expect(records[records.count - 2].value.contains("deleting"), "\(records)")
        #expect(worker.terminate() == 0)
    }

    @Test func `A channel that stores nothing is deleted keepSeconds after the end`() throws {
        let scene = try ChannelScene()
        let worker = try scene.startWorker([
            "CHANNELS_AUDIENCES": Self.audience, "CHANNELS_KEEP_SECONDS": "10", "CHANNELS_STORAGE": "none",
        ])
        try scene.send(makeCommand(1))
        let channel = try scene.await("a channel in the registry") { try registeredChannel(scene) }
        let endDate = Date()
        try scene.send(makeCommand(2, "end"))
        try scene.await("the deletion is planned") {
            try scene.run("list").output.contains("deleted in ") ? true : nil
        }
        #expect(try scene.run("reconcile").output.contains("deleted when due: 0,"))
        #expect(try scene.channelIdentifiers() == [channel])
        try #require(Date().timeIntervalSince(endDate) < 10, "the machine is too slow for this test")

        try scene.await("the channel is due") {
            try scene.run("reconcile").output.contains("deleted when due: 1,") ? true : nil
        }
        #expect(Date().timeIntervalSince(endDate) >= 10)
        #expect(try scene.channelIdentifiers().isEmpty && registeredChannel(scene) == nil)
        #expect(worker.terminate() == 0)
    }

    /// The test removes the planned deletion from the registry, as if the worker had died after it admitted the end and
    /// before it made the plan.
    @Test
    func
        `A reconciliation plans the deletion of a channel whose audience has ended, and that plan outlives a loss of Redis`()
        throws
    {
        let scene = try ChannelScene()
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": Self.audience])
        let (key, field) = ("{channels:\(ChannelScene.app):production}", "a:\(Self.audience)")
        try scene.send(makeCommand(1))
        let channel = try scene.await("a channel in the registry") { try registeredChannel(scene) }
        #expect(try scene.run("reconcile").exitCode == 0)
        #expect(try !scene.run("list").output.contains("deleted in "), "the audience has not ended")
        try scene.send(makeCommand(2, "end"))
        try scene.await("the deletion is planned") {
            try scene.run("list").output.contains("deleted in ") ? true : nil
        }
        #expect(worker.terminate() == 0)
        let entry = try scene.redis.ask("HGET", key, field)
        let entryWithoutPlan = entry.replacing(/"deleteAfter":[0-9]+,/, with: "")
        try #require(entryWithoutPlan != entry)
        _ = try scene.redis.ask("HSET", key, field, entryWithoutPlan)
        try #require(try !scene.run("list").output.contains("deleted in "))

        #expect(try scene.run("reconcile").exitCode == 0)
        #expect(try scene.run("list").output.contains("deleted in "))
        #expect(try scene.run("reconcile").output.contains("published: 1,"))
        #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
        let list = try scene.run("list").output
        #expect(list.contains(channel) && list.contains("deleted in "), "\(list)")
    }

    @Test func `A daily reconciliation that fails is tried again with the next poll`() throws {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        // APNs responds later than the worker waits.
        try scene.delayResponses(milliseconds: 20_000)
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": Self.audience])
        try scene.await("a reconciliation that fails") { scene.log.contains("channel-upkeep-failed") ? true : nil }
        try scene.stopDelayingResponses()
        try awaitFirstReconciliation(scene, noting: foreignChannel)
        #expect(worker.terminate() == 0)
    }

    /// Two channels of the registry are due to be deleted. The id of the first one is not Base64, so APNs always
    /// refuses this deletion (BadChannelId). Then no such channel exists.
    @Test
    func `A channel whose id APNs calls invalid counts as deleted, and the others and the reconciliation follow`()
        throws
    {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let channel = try scene.createChannel(of: "semifinal")
        let key = "{channels:\(ChannelScene.app):production}"
        let dueEntry = try scene.redis.ask("HGET", key, "a:semifinal")
            .replacingOccurrences(of: #""deleteAfter":"#, with: "")
            .replacingRequired(#""createdAt":"#, with: #""deleteAfter":1,"createdAt":"#)
        let refusedEntry = dueEntry.replacingRequired("semifinal", with: "a-quarterfinal")
            .replacingRequired(channel, with: "not-a-channel!")
        try #require(dueEntry.contains(channel) && refusedEntry.contains("not-a-channel!"), "\(dueEntry)")
        _ = try scene.redis.ask("HSET", key, "a:semifinal", dueEntry, "a:a-quarterfinal", refusedEntry)

        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": Self.audience])
        _ = try scene.await("the good channel is deleted") {
            try scene.channelIdentifiers() == [foreignChannel] ? true : nil
        }
        try awaitFirstReconciliation(scene, noting: foreignChannel)
        try scene.await("a registry without the invalid channel") {
            try scene.redis.ask("HEXISTS", key, "a:a-quarterfinal") == "0" ? true : nil
        }
        #expect(!scene.log.contains("channel-upkeep-failed"))
        #expect(worker.terminate() == 0)
    }

    /// The channel is created for the first command, which waits for it. The audience ends before or soon after the
    /// worker learns of the channel. The worker must still plan the channel's deletion.
    @Test func `An audience that ends while its channel is created keeps the channel no longer than others`() throws {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let worker = try scene.startWorker(
            ["CHANNELS_AUDIENCES": Self.audience],
            environment: Self.slowCreationVariables
        )
        try awaitFirstReconciliation(scene, noting: foreignChannel)
        try scene.delayResponses(milliseconds: Self.creationMilliseconds)
        try scene.send(makeCommand(1))
        // If both commands were in one batch, the end would replace the first command, and no channel would be
        // requested.
        let key = "{channels:\(ChannelScene.app):production}create:\(Self.audience)"
        try scene.await("a creation") { try scene.redis.ask("EXISTS", key) == "1" ? true : nil }
        try scene.send(makeCommand(2, "end"))
        try scene.await("a second channel") { try scene.channelIdentifiers().first { $0 != foreignChannel } }
        try scene.stopDelayingResponses()
        try scene.await("a deletion that is planned") {
            try scene.run("list").output.contains("deleted in ") ? true : nil
        }
        #expect(worker.terminate() == 0)
    }

    /// The worker connected to Redis less than a minute ago. So it does not know yet whether Redis has lost the
    /// channel, and the end may wait for the channel.
    @Test
    func `An audience that ends while another process creates its channel keeps the channel no longer than others`()
        throws
    {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let worker = try scene.startWorker(
            ["CHANNELS_AUDIENCES": Self.audience],
            environment: Self.slowCreationVariables
        )
        try awaitFirstReconciliation(scene, noting: foreignChannel)
        try scene.delayResponses(milliseconds: Self.creationMilliseconds)
        let creation = try RunningProgram(
            scene.process(["create", Self.audience], environment: Self.slowCreationVariables)
        )
        let key = "{channels:\(ChannelScene.app):production}create:\(Self.audience)"
        try scene.await("a creation") { try scene.redis.ask("EXISTS", key) == "1" ? true : nil }
        try scene.send(makeCommand(1, "end"))
        #expect(creation.awaitExitCode() == 0)
        try scene.stopDelayingResponses()
        let results = try TopicReader(scene.broker, topic: "causeway.results")
        #expect(try results.read(1)[0].value.contains("state-1"))
        try scene.await("a deletion that is planned") {
            try scene.run("list").output.contains("deleted in ") ? true : nil
        }
        #expect(worker.terminate() == 0)
    }

    /// No phone subscribes to a new channel, so a new channel could not deliver the end.
    @Test func `An end to a channel that somebody else deleted creates no other channel`() throws {
        let scene = try ChannelScene()
        let worker = try scene.startWorker([
            "CHANNELS_AUDIENCES": Self.audience, "CHANNELS_KEEP_SECONDS": "0", "CHANNELS_STORAGE": "none",
        ])
        try scene.send(makeCommand(1))
        let channel = try scene.await("a broadcast") {
            try scene.listedChannels().first { $0.broadcasts > 0 }?.identifier
        }
        try scene.deleteChannelAsOtherProgram(channel)
        try scene.send(makeCommand(2, "end"))
        let results = try TopicReader(scene.broker, topic: "causeway.results")
        var endResult: ChannelScene.Object?
        while endResult == nil {
            let record = try results.read(1)[0]
            let result = try JSONSerialization.jsonObject(with: Data(record.value.utf8)) as? ChannelScene.Object
            if result?["command"] as? String == "state-2", result?["environment"] != nil { endResult = result }
        }
        #expect(
            endResult?["outcome"] as? String == "failed" && endResult?["reason"] as? String == "ChannelNotRegistered"
        )
        _ = try reconcile(scene)
        #expect(try scene.channelIdentifiers().isEmpty && registeredChannel(scene) == nil)
        #expect(worker.terminate() == 0)
    }

    @Test func `The result of a broadcast that APNs refuses says what to do`() throws {
        let scene = try ChannelScene()
        let worker = try scene.startWorker([:])
        var command = makeCommand(1)
        command["audience"] = nil
        command["channel"] = "dHN0LXNyY2gtY2hubA=="
        try scene.send(command)
        let record = try TopicReader(scene.broker, topic: "causeway.results").read(1)[0]
        let result = try #require(
            JSONSerialization.jsonObject(with: Data(record.value.utf8)) as? ChannelScene.Object
        )
        #expect(result["outcome"] as? String == "failed" && result["reason"] as? String == "ChannelNotRegistered")
        #expect((result["advice"] as? String)?.contains("create a channel") == true, "\(result)")
        #expect(worker.terminate() == 0)
    }
}
