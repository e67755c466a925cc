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
