import Foundation
import Kafka
import RegexBuilder
import Testbed
import Testing

/// `causeway channels` with real programs: a broker, a Redis and the simulator.
@Suite(.ownThread) struct ChannelsCommandTests {
    @Test func `An audience's channel is created once, listed, shown, published, and deleted`() throws {
        let scene = try ChannelScene()
        let channel = try scene.createChannel(of: "final")
        #expect(try scene.createChannel(of: "final") == channel)
        #expect(try scene.channelIdentifiers() == [channel])
        let list = try scene.run("list")
        #expect(list.outputLines.count == 2 && list.outputLines[0].hasPrefix("final \(channel) storage=newest active"))
        #expect(list.outputLines[1] == "com.example.ride has 1 of at most 10000 channels in production")
        #expect(try scene.run("show", "final").outputLines.last == "APNs has it")
        #expect(try scene.run("show", "none").exitCode == 1)
        let topic = try TopicReader(scene.broker, topic: "causeway.channels")
        let record = try topic.read(1)[0]
        #expect(
            record.key == "com.example.ride/production/final" && record.value.contains("\"channel\":\"\(channel)\"")
        )
        #expect(try scene.run("list", "--json").outputLines == [record.value])

        #expect(try scene.run("delete", "final").exitCode == 0)
        #expect(try scene.channelIdentifiers().isEmpty)
        #expect(try scene.run("delete", "final").exitCode == 1)
        #expect(try scene.run("list").outputLines.count == 1)
        #expect(try topic.read(2).map { $0.value.isEmpty } == [false, true])
    }

    @Test func `Without Kafka, a list whose registry must be restored names the address and the cause`() throws {
        let scene = try ChannelScene()
        let run = try ProgramRun.run(
            scene.process(["list"], environment: ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"])
        )
        #expect(run.exitCode == 1)
        let line = try #require(run.errorLines.last)
        let end = /no Kafka broker responded at 127.0.0.1:1 within [0-9]+ s \(Connection refused\)/
        #expect(
            line.wholeMatch(
                of: Regex {
                    "causeway channels list: the registry of channels in Redis is not complete, and the channels cannot "
                    "be read from Kafka: "
                    end
                }
            ) != nil,
            "\(run.errors)"
        )
    }

    @Test func `Without Kafka, a channel is created, and the error names the address and the cause`() throws {
        let scene = try ChannelScene()
        _ = try scene.createChannel(of: "semifinal")
        let run = try ProgramRun.run(
            scene.process(["create", "final"], environment: ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"])
        )
        #expect(run.exitCode == 0 && run.output.hasPrefix("final "), "\(run.errors)")
        let line = try #require(run.errorLines.last)
        let end = /no Kafka broker responded at 127.0.0.1:1 within [0-9]+ s \(Connection refused\)/
        #expect(
            line.wholeMatch(
                of: Regex {
                    "causeway channels create: \(ChannelScene.app)/production/final is not published yet: "
                    end
                }
            ) != nil,
            "\(run.errors)"
        )
    }

    /// The process is killed after APNs has created the channel and before the registry has it.
    @Test func `A reconciliation deletes a channel that a kill left without an owner, and no other program's channel`()
        throws
    {
        let scene = try ChannelScene()
        let foreignChannel = try scene.createForeignChannel()
        let ownChannel = try scene.createChannel(of: "semifinal")
        try scene.delayResponses(milliseconds: 1_400)
        let creation = try RunningProgram(scene.process(["create", "final"]))
        try eventually("a channel that is created") { try scene.channelIdentifiers().count == 3 }
        creation.killAtOnce()
        try scene.stopDelayingResponses()
        let orphanChannel = try #require(try scene.channelIdentifiers().last)
        #expect(try !scene.run("list").output.contains(orphanChannel))
        // Only after the attempt's time limit can a reconciliation know that the killed process creates nothing more.
        var run = try scene.run("reconcile")
        #expect(run.exitCode == 1 && run.errors.contains("creating channels"))
        try eventually("the end of the attempt", every: .milliseconds(200)) {
            run = try scene.run("reconcile")
            return run.exitCode == 0
        }
        #expect(run.output.contains("deleted without an owner: 1,") && run.output.contains("of other programs: 1"))
        let remainingChannels = try scene.channelIdentifiers()
        #expect(
            remainingChannels.count == 2 && remainingChannels.contains(ownChannel)
                && !remainingChannels.contains(orphanChannel)
        )
        #expect(remainingChannels.contains(foreignChannel))
        let secondRun = try scene.run("reconcile")
        #expect(secondRun.exitCode == 0 && secondRun.output.contains("deleted without an owner: 0,"))
        #expect(try scene.run("create", "final").exitCode == 0)
    }

    @Test func `A worker that starts with an empty Redis restores the channels of the topic`() throws {
        let scene = try ChannelScene()
        let keptChannel = try scene.createChannel(of: "final")
        _ = try scene.createChannel(of: "semifinal")
        #expect(try scene.run("delete", "semifinal").exitCode == 0)
        #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": "final,semi*"])
        let key = "{channels:\(ChannelScene.app):production}"
        try eventually("a registry that is restored: \(scene.log)") {
            try scene.redis.ask("HEXISTS", key, "a:final") == "1"
        }
        let list = try scene.run("list")
        #expect(
            list.outputLines.count == 2 && list.outputLines[0].hasPrefix("final \(keptChannel) storage=newest active")
        )
        #expect(worker.terminate() == 0)
        // Restoring the registry neither creates nor deletes a channel.
        #expect(try scene.channelIdentifiers() == [keptChannel])
    }

    @Test func `With an emptied Redis, each command first reads the channels from the topic`() throws {
        let scene = try ChannelScene()
        let keptChannel = try scene.createChannel(of: "final")
        _ = try scene.createChannel(of: "semifinal")
        #expect(try scene.run("delete", "semifinal").exitCode == 0)
        for arguments in [["list"], ["show", "final"], ["create", "final"], ["reconcile"]] {
            #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
            let run = try ProgramRun.run(scene.process(arguments))
            #expect(run.exitCode == 0, "\(arguments): \(run.errors)")
            #expect(try scene.run("list").output.contains("final \(keptChannel) "))
            #expect(try scene.channelIdentifiers() == [keptChannel], "\(arguments)")
        }
        // Redis is empty, and Kafka is unreachable. The command cannot read the topic of channels, so it does not know
        // whether the channel exists.
        #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
        try scene.broker.takeDown()
        let refusedRun = try scene.run("create", "semifinal")
        #expect(
            refusedRun.exitCode == 1 && refusedRun.errors.contains("cannot be read from Kafka"),
            "\(refusedRun.errors)"
        )
        #expect(try scene.channelIdentifiers() == [keptChannel])
        try scene.broker.bringUp()
        #expect(try scene.run("delete", "final").exitCode == 0)
        #expect(try scene.channelIdentifiers().isEmpty)
    }

    @Test func `After Redis was emptied, a worker restores a channel that no command requests`() throws {
        let scene = try ChannelScene()
        let worker = try scene.startWorker(["CHANNELS_AUDIENCES": "semi*"])
        let keptChannel = try scene.createChannel(of: "final")
        #expect(try scene.redis.ask("FLUSHALL").hasPrefix("OK"))
        try eventually("the channel in the audience's hash: \(scene.log)") {
            let run = try ProgramRun.run(
                "inspect",
                "--config",
                scene.directory.path("causeway.yaml"),
                "--app",
                ChannelScene.app,
                "--audience",
                "final"
            )
            return run.output.contains(keptChannel)
        }
        #expect(try scene.channelIdentifiers() == [keptChannel])
        #expect(worker.terminate() == 0)
    }

    @Test func `An entry that cannot be read is reported, and is not taken for a missing channel`() throws {
        let scene = try ChannelScene()
        let channel = try scene.createChannel(of: "final")
        let otherChannel = try scene.createChannel(of: "other")
        #expect(try scene.redis.ask("HSET", "{channels:\(ChannelScene.app):production}", "a:final", "?") == "0")
        let list = try scene.run("list")
        #expect(list.exitCode == 1 && list.errors.contains("field a:final"), "\(list.errors)")
        #expect(list.outputLines.count == 2 && list.output.contains(otherChannel) && list.output.contains("has 2 of"))
        for command in ["show", "delete", "create"] {
            let run = try scene.run(command, "final")
            #expect(run.exitCode == 1 && run.errorLines.count == 1, "\(run.errors)")
            #expect(run.errors.contains("field a:final"), "\(run.errors)")
        }
        let reconciliation = try scene.run("reconcile", "--delete-unknown")
        #expect(reconciliation.exitCode == 1 && reconciliation.errors.contains("field a:final"))
        #expect(try Set(scene.channelIdentifiers()) == [channel, otherChannel])
    }

    @Test func `A channel that somebody else deleted is shown as missing; a refusal of APNs says what to do`() throws {
        let scene = try ChannelScene()
        let channel = try scene.createChannel(of: "final")
        try scene.deleteChannelAsOtherProgram(channel)
        let showRun = try scene.run("show", "final")
        #expect(showRun.exitCode == 1 && showRun.output.contains("APNs does not have it"))
        try scene.setBroadcastCapability(false)
        let refusedRun = try scene.run("create", "other")
        #expect(refusedRun.exitCode == 1)
        #expect(refusedRun.errors.contains("FeatureNotEnabled") && refusedRun.errors.contains("developer.apple.com"))
        #expect(try scene.run("create", "--environment", "sandbox", "x").exitCode == 64)
    }
}
