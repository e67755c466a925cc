import ActivityStore
import LiveActivity
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

@Suite("causeway replay rebuild", .serialized, .ownThread)
struct ReplayRebuildTests {
    private func rebuiltCounts(_ run: ProgramRun) throws -> [String: Int] { try reportedCounts("rebuilt", in: run) }

    @Test func `A rebuild restores tokens and newest states in Redis, sends nothing, and rings no alert`() throws {
        let scene = try ReplayScene()
        let nowSeconds = scene.nowSeconds
        try scene.produce(
            [
                scene.registration("a", at: nowSeconds - 3_600), scene.registration("old", at: nowSeconds - 13 * 3_600),
                scene.pushToStart("phone", at: nowSeconds - 30 * 86_400),
                scene.registration("gone", at: nowSeconds - 3_600),
                .init(key: "gone", value: nil, timestampMilliseconds: (nowSeconds - 1_800) * 1_000),
                .init(key: "x", value: "{}", timestampMilliseconds: nowSeconds * 1_000),
            ],
            to: ReplayScene.registrationsTopic
        )
        let commands = [
            scene.update("a", at: nowSeconds - 200), scene.update("a", at: nowSeconds - 100, state: 2, hasAlert: true),
            scene.update("tokenless", at: nowSeconds - 100, hasAlert: true), scene.start("born", at: nowSeconds - 100),
            scene.update("gone", at: nowSeconds - 100), scene.update("a", at: nowSeconds - 50, state: 3),
        ]
        try scene.produce(commands)
        try scene.commit([0: 5])

        let dryRun = try scene.replay("rebuild", "--offsets", "0:0-4", "--json")
        #expect(dryRun.exitCode == 0 && dryRun.errors.contains("nothing was written"), "\(dryRun.errors)")
        #expect(try scene.redis.contents().isEmpty)

        // The workers have not read the last command yet, so the rebuild leaves this command to them.
        let run = try scene.replay("rebuild", "--offsets", "0:0-4", "--json", "--execute", "--rate", "100000")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(
            try rebuiltCounts(run) == [
                "registrationsWritten": 3, "registrationsOver": 1, "registrationsInvalid": 1, "unregistered": 1,
                "statesWritten": 1, "statesHeld": 2, "startsPassedOver": 1,
            ]
        )
        #expect(try rebuiltCounts(dryRun) == rebuiltCounts(run), "the dry run reports the counts of the real run")
        #expect(try scene.recordCount() == Int64(commands.count))

        let knownActivity = try scene.inspection(of: "a")
        #expect(knownActivity.token != nil && knownActivity.newestVersion?.phase == .settled)
        #expect(knownActivity.acceptedAlertVersion == Version(timestamp: nowSeconds - 100, sequence: 0))
        #expect(try scene.inspection(of: "gone").token == nil && scene.inspection(of: "old").token == nil)
        #expect(try scene.admit("a", at: nowSeconds - 150, hasAlert: true) == .superseded)
        #expect(try scene.admit("a", at: nowSeconds - 100) == .duplicate)
        let heldCommand = try #require(try scene.inspection(of: "tokenless").heldCommand)
        #expect(!heldCommand.hasAlert)
        let record = String(decoding: heldCommand.command, as: UTF8.self)
        #expect(record.contains(#""n":1"#) && !record.contains("alert"))
        let command = try heldCommand.command.withUnsafeBytes { try Command.decodeWrittenByCauseway($0) }
        #expect(command.version == Version(timestamp: nowSeconds - 100, sequence: 0))
        #expect(try scene.reasonCounts(scene.replay("report", "--offsets", "0:0-", "--json"))["unread"] == 1)
    }

    /// If the rebuild recorded the state as sent, the worker that reads it in the deferred topic would call it a
    /// duplicate.
    @Test func `A state that waits in the deferred topic is left to the workers`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.registration("a", at: scene.nowSeconds - 3_600)], to: ReplayScene.registrationsTopic)
        let update = scene.update("a", at: scene.nowSeconds - 100, hasAlert: true)
        try scene.produce([update])
        try scene.commit([0: 1])
        try scene.produce([update], to: "causeway.deferred")
        let run = try scene.replay("rebuild", "--offsets", "0:0-0", "--json", "--execute")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(try rebuiltCounts(run) == ["registrationsWritten": 1, "statesUnread": 1])
        #expect(try scene.admit("a", at: scene.nowSeconds - 100, hasAlert: true) == .send)
    }

    @Test func `A tombstone of an attributes type removes only the token of this type`() throws {
        let scene = try ReplayScene()
        let (registeredAtSeconds, unregisteredAtSeconds) = (scene.nowSeconds - 3_600, scene.nowSeconds - 1_800)
        try scene.produce(
            [
                scene.pushToStart("phone", at: registeredAtSeconds, type: "Ride"),
                scene.pushToStart("phone", at: registeredAtSeconds, type: "Match"),
                .init(key: "phone/Ride", value: nil, timestampMilliseconds: unregisteredAtSeconds * 1_000),
            ],
            to: ReplayScene.registrationsTopic
        )
        let run = try scene.replay("rebuild", "--registrations", "--json", "--execute")
        #expect(try rebuiltCounts(run) == ["registrationsWritten": 2, "unregistered": 1], "\(run.errors)")
        // The field of a type without a token has only the time of the unregistration.
        let key = "{\(ReplayScene.app)/phone}"
        #expect(try scene.redis.ask("HGET", key, "t:Ride").hasSuffix("\(unregisteredAtSeconds * 1_000)"))
        #expect(try scene.redis.ask("HSTRLEN", key, "t:Match") != scene.redis.ask("HSTRLEN", key, "t:Ride"))
    }

    /// If old tombstones were written, Redis would get a key for each activity that ever ended. The registration's own
    /// time is old because the phone's clock is behind.
    @Test func `Old tombstones write nothing, but a recent record of an old registration is written`() throws {
        let scene = try ReplayScene()
        let activityGoneAtSeconds = scene.nowSeconds - 13 * 3_600
        let deviceGoneAtSeconds = scene.nowSeconds - 91 * 86_400
        try scene.produce(
            [
                .init(key: "over", value: nil, timestampMilliseconds: activityGoneAtSeconds * 1_000),
                .init(key: "phone", value: nil, timestampMilliseconds: deviceGoneAtSeconds * 1_000),
            ],
            to: ReplayScene.registrationsTopic
        )
        let run = try scene.replay("rebuild", "--registrations", "--json", "--execute")
        #expect(try rebuiltCounts(run) == ["unregistered": 1, "registrationsOver": 1], "\(run.errors)")
        #expect(try scene.redis.contents().isEmpty)

        var registration = scene.registration("a", at: activityGoneAtSeconds)
        registration.timestampMilliseconds = scene.nowSeconds * 1_000
        try scene.produce([registration], to: ReplayScene.registrationsTopic)
        let laterRun = try scene.replay("rebuild", "--registrations", "--execute")
        #expect(laterRun.exitCode == 0 && laterRun.output.contains(/registrations written +1/), "\(laterRun.output)")
        #expect(try scene.inspection(of: "a").token != nil)
    }

    /// If the eight hours began with the rebuild, a rebuilt activity would get updates for too long. Its token comes by
    /// a registration, or with a command.
    @Test(arguments: [false, true])
    func `The eight hours of a rebuilt activity begin when the record of its token was written`(
        comesWithCommand: Bool
    ) throws {
        let scene = try ReplayScene()
        let writtenAtSeconds = scene.nowSeconds - 7 * 3_600
        if comesWithCommand {
            let tokenMembers = #""environment":"sandbox","token":"0af70af7","#
            try scene.produce([scene.update("a", at: writtenAtSeconds, otherMembers: tokenMembers)])
            try scene.commit([0: 1])
        } else {
            try scene.produce([scene.registration("a", at: writtenAtSeconds)], to: ReplayScene.registrationsTopic)
        }
        let run =
            comesWithCommand
            ? try scene.replay("rebuild", "--offsets", "0:0-0", "--execute")
            : try scene.replay("rebuild", "--registrations", "--execute")
        #expect(run.exitCode == 0, "\(run.errors)")
        let inspection = try scene.inspection(of: "a")
        #expect(inspection.token != nil)
        #expect(inspection.updatesUntilMilliseconds == (writtenAtSeconds + 8 * 3_600) * 1_000 + 999)
    }

    /// Both tokens were registered nine hours ago. The record of the first is only an hour old, because the app has
    /// reported the token again. So only the second activity is over.
    @Test func `A dry run counts the eight hours as a real run does`() throws {
        let scene = try ReplayScene()
        var registration = scene.registration("a", at: scene.nowSeconds - 9 * 3_600)
        registration.timestampMilliseconds = (scene.nowSeconds - 3_600) * 1_000
        let otherRegistration = scene.registration("b", at: scene.nowSeconds - 9 * 3_600)
        try scene.produce([registration, otherRegistration], to: ReplayScene.registrationsTopic)
        try scene.produce([scene.update("a", at: scene.nowSeconds - 50), scene.update("b", at: scene.nowSeconds - 50)])
        try scene.commit([0: 2])
        let expectedCounts = ["registrationsWritten": 2, "statesWritten": 1, "statesTooOld": 1]
        for options in [[], ["--execute"]] {
            let arguments = ["rebuild", "--offsets", "0:0-1", "--json"] + options
            let run = try ProgramRun.run(scene.process(arguments))
            #expect(try rebuiltCounts(run) == expectedCounts, "\(run.errors)")
        }
    }

    /// A worker logs the same warning.
    @Test func `If Redis may evict what is rebuilt, the rebuild warns and continues`() throws {
        let scene = try ReplayScene()
        try scene.configureRedis("maxmemory-policy", "volatile-lru")
        try scene.produce([scene.registration("a", at: scene.nowSeconds - 60)], to: ReplayScene.registrationsTopic)
        let run = try scene.replay("rebuild", "--registrations", "--execute")
        #expect(run.exitCode == 0 && run.output.contains(/registrations written +1/))
        let warning = #"its maxmemory-policy must be noeviction, but is "volatile-lru""#
        #expect(
            run.errors
                == "causeway replay rebuild: Redis may evict keys, and then pushes may be repeated: \(warning)\n"
        )
        #expect(try scene.inspection(of: "a").token != nil)
    }

    @Test func `What Redis already knows stays unchanged`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.registration("a", at: scene.nowSeconds - 60)], to: ReplayScene.registrationsTopic)
        try scene.produce([scene.update("a", at: scene.nowSeconds - 50)])
        try scene.commit([0: 1])
        try scene.admitAndSettle("a", at: scene.nowSeconds - 20)
        let version = try scene.inspection(of: "a").newestVersion
        let run = try scene.replay("rebuild", "--execute")
        #expect(run.exitCode == 0 && run.output.contains(/states already known +1/), "\(run.output)")
        #expect(try scene.inspection(of: "a").newestVersion == version)
    }

    @Test func `A command that was held for a token that is known again is reported`() throws {
        let scene = try ReplayScene()
        try scene.produce([scene.registration("a", at: scene.nowSeconds - 60)], to: ReplayScene.registrationsTopic)
        let update = scene.update("a", at: scene.nowSeconds - 50)
        try scene.produce([update])
        try scene.commit([0: 1])
        #expect(try scene.admit("a", at: scene.nowSeconds - 50) == .noToken)
        let version = Version(timestamp: scene.nowSeconds - 50, sequence: 0)
        let command = Array((update.value ?? "").utf8)
        #expect(try scene.perform("a", .hold(version: version, command: command, hasAlert: false)).verdict == .held)
        let run = try scene.replay("rebuild", "--execute", "--json")
        #expect(try rebuiltCounts(run)["heldWithToken"] == 1, "\(run.output) \(run.errors)")
        // The command is still held, so it was never sent.
        #expect(try scene.inspection(of: "a").newestVersion?.phase == .held)
        #expect(try scene.reasonCounts(scene.replay("report", "--from", "1h", "--json")) == ["send": 1])
    }
}
