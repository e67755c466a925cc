import ActivityStore
import Foundation
import Kafka
import LiveActivity
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

@Suite("causeway replay: report and send", .serialized, .ownThread)
struct ReplayTests {
    /// Returns a scene, and the end of its commands partition. A replay of its records gives `expectedReasons`. The
    /// committed offset says that workers have read all records but the last.
    private func makeScene() throws -> (scene: ReplayScene, end: Int64) {
        let scene = try ReplayScene()
        let nowSeconds = scene.nowSeconds
        try scene.admitAndSettle("newer", at: nowSeconds - 90)
        try scene.admitAndSettle("same", at: nowSeconds - 10)
        try scene.admitAndSettle("older", at: nowSeconds)
        try scene.admitAndSettle("failed", at: nowSeconds - 10, .notShown)
        try scene.admitAndSettle("alert", at: nowSeconds - 900)
        try scene.register("busy")
        #expect(try scene.admit("busy", at: nowSeconds - 10) == .send)
        // A name says what Redis knows, or what is special: `ancient` is older than eight hours, `late` is in the
        // future.
        let records = [
            scene.update("newer", at: nowSeconds - 50), scene.update("newer", at: nowSeconds - 10, state: 2),
            scene.update("same", at: nowSeconds - 10), scene.update("older", at: nowSeconds - 10),
            scene.update("failed", at: nowSeconds - 10), scene.update("alert", at: nowSeconds - 400, hasAlert: true),
            scene.update("busy", at: nowSeconds - 10), scene.update("nobody", at: nowSeconds - 10),
            scene.update("ancient", at: nowSeconds - 9 * 3_600),
            scene.update("a", at: nowSeconds - 10, app: "com.example.other"),
            scene.update("late", at: nowSeconds + 3_600), scene.start("born", at: nowSeconds - 10),
            scene.update("newer", at: nowSeconds - 5, state: 3),
        ]
        try scene.produce(records)
        try scene.commit([0: Int64(records.count) - 1])
        return (scene, Int64(records.count))
    }

    private let expectedReasons = [
        "unread": 1, "supersededInRange": 2, "duplicate": 1, "superseded": 1, "sendAgain": 1, "send": 1, "underWay": 1,
        "tokenUnknown": 1, "activityUnknown": 1, "invalid": 2, "startLeftOut": 1,
    ]

    @Test func `A report says what would be sent and why, and changes nothing`() throws {
        let (scene, end) = try makeScene()
        let contentsBefore = try scene.redis.contents()
        let run = try scene.replay("report", "--offsets", "0:0-", "--json", "--verbose")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(try scene.reasonCounts(run) == expectedReasons)
        let report = try #require(run.outputLines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
        #expect(report["records"]?.integerValue == end && report["withoutAlert"]?.integerValue == 1)
        #expect(report["replay"]?.text == "report" && report["isComplete"] == .boolean(true))
        #expect(
            report["invalid"]?["unknownApp"]?.integerValue == 1
                && report["invalid"]?["timestampInFuture"]?.integerValue == 1
        )
        #expect(report["apps"]?[ReplayScene.app]?["send"]?.integerValue == 1)
        let lines = run.outputLines.dropLast().compactMap { JSONValue(parsing: Array($0.utf8)) }
        #expect(lines.count { $0["reason"]?.text != "invalid" } == 9)
        let failedLine = lines.first { $0["activity"]?.text == "failed" }
        #expect(failedLine?["reason"]?.text == "sendAgain" && failedLine?["source"]?.text == "causeway.commands/0/4")
        #expect(lines.first { $0["activity"]?.text == "alert" }?["dropsAlert"] == .boolean(true))
        #expect(try scene.redis.contents() == contentsBefore)
        #expect(try scene.recordCount() == end)

        let textReport = try scene.replay("report", "--from", "10h", "--app", ReplayScene.app)
        #expect(textReport.exitCode == 0 && textReport.errors.isEmpty)
        #expect(textReport.output.contains(/would be sent again +1  the newest; it expired/))
        #expect(textReport.output.contains("1 of other apps or activities skipped"))
        let oneActivityReport = try scene.replay(
            "report",
            "--from",
            "1h",
            "--activity",
            "newer",
            "--starts",
            "--verbose"
        )
        #expect(oneActivityReport.output.contains("newer  update"))
        #expect(!oneActivityReport.output.contains("failed"))
    }

    @Test
    func `Without --execute nothing is sent; with it, workers get the records again, and Redis accepts them`()
        throws
    {
        let (scene, end) = try makeScene()
        let contentsBefore = try scene.redis.contents()
        let dryRun = try scene.replay("send", "--from", "1h", "--json")
        #expect(dryRun.exitCode == 0 && dryRun.errors.contains("--execute"))
        #expect(try scene.redis.contents() == contentsBefore && scene.recordCount() == end)

        let run = try scene.replay("send", "--from", "1h", "--execute", "--rate", "1000", "--verbose")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(run.output.contains("2 sent, 2 acknowledged, 0 failed"))
        #expect(run.output.contains(#/\nsent again +1  /#) && !run.output.contains("would be"))
        let records = try scene.records(from: end)
        let firstUpdate = scene.update("alert", at: scene.nowSeconds - 400, hasAlert: true)
        let secondUpdate = scene.update("failed", at: scene.nowSeconds - 10)
        #expect(records.map(\.key) == [firstUpdate.key, secondUpdate.key])
        #expect(records.map(\.value) == [firstUpdate.value, secondUpdate.value])
        #expect(records.map(\.replayed) == ["causeway.commands/0/5", "causeway.commands/0/4"])
        #expect(
            records.map(\.timestampMilliseconds) == [
                firstUpdate.timestampMilliseconds, secondUpdate.timestampMilliseconds,
            ]
        )
        // The replay has reopened the version in Redis, so a worker that reads the new record sends it.
        #expect(try scene.admit("failed", at: scene.nowSeconds - 10) == .send)
        #expect(try scene.reasonCounts(scene.replay("report", "--offsets", "0:4-4", "--json")) == ["underWay": 1])
    }

    /// The command failed, so the replay reopens it in Redis.
    @Test func `If Redis may evict keys, a replay that changes Redis warns and sends`() throws {
        let (scene, _) = try makeScene()
        try scene.configureRedis("maxmemory-policy", "allkeys-lru")
        let run = try scene.replay("send", "--from", "1h", "--activity", "failed", "--execute")
        #expect(run.exitCode == 0 && run.output.contains("1 sent, 1 acknowledged, 0 failed"))
        #expect(run.errors.contains("must be noeviction, but is \"allkeys-lru\"\n"), "\(run.errors)")
    }

    @Test func `A command that Kafka refuses is settled as before, and is reported`() throws {
        let (scene, _) = try makeScene()
        // Error 10 is MSG_SIZE_TOO_LARGE. After this error librdkafka does not repeat a produce request.
        scene.broker.failNextRequests(.produce, with: [10, 10, 10, 10])
        let run = try scene.replay("send", "--from", "1h", "--activity", "failed", "--execute")
        #expect(run.exitCode == 1)
        #expect(run.output.contains("1 sent, 0 acknowledged, 1 failed"))
        #expect(try scene.inspection(of: "failed").newestVersion?.phase == .notShown)
    }

    /// The lane and Redis also prefer the newer end, unless the older one was shown.
    @Test func `Of two ends that no phone has shown, the newer one is sent again`() throws {
        let scene = try ReplayScene()
        try scene.admitAndSettle("a", at: scene.nowSeconds - 10, .notShown, isEnd: true)
        try scene.produce([scene.end("a", at: scene.nowSeconds - 20), scene.end("a", at: scene.nowSeconds - 10)])
        try scene.commit([0: 2])
        let run = try scene.replay("report", "--offsets", "0:0-", "--json")
        #expect(try scene.reasonCounts(run) == ["supersededInRange": 1, "sendAgain": 1], "\(run.errors)")
    }

    @Test func `A command that no phone could decode is invalid, and does not replace an older one`() throws {
        let scene = try ReplayScene(
            shapes: """
                {"app":"\(ReplayScene.app)","attributesTypes":[
                  {"name":"Ride","attributes":{},"contentState":{"n":"int"}}
                ]}
                """
        )
        try scene.admitAndSettle("a", at: scene.nowSeconds - 20, .notShown)
        var undecodableUpdate = scene.update("a", at: scene.nowSeconds - 10, state: 2)
        undecodableUpdate.value = undecodableUpdate.value?.replacing(#""n":2"#, with: #""n":"2""#)
        try scene.produce([scene.update("a", at: scene.nowSeconds - 20), undecodableUpdate])
        try scene.commit([0: 2])
        let run = try scene.replay("report", "--offsets", "0:0-", "--json")
        #expect(try scene.reasonCounts(run) == ["sendAgain": 1, "invalid": 1])
        #expect(try reportedCounts("invalid", in: run) == ["undecodable": 1])
        #expect(run.errors.isEmpty)

        try FileManager.default.removeItem(atPath: scene.directory.path("shapes.json"))
        let runWithoutShapes = try scene.replay("report", "--offsets", "0:0-", "--json")
        #expect(try scene.reasonCounts(runWithoutShapes) == ["send": 1, "supersededInRange": 1])
        #expect(runWithoutShapes.errors.contains("shapes.json: cannot be opened"), "\(runWithoutShapes.errors)")
    }

    /// Makes commands that bring their token, so that Redis need not know it.
    private func commandsWithTokens(_ count: Int, of scene: ReplayScene) -> [ReplayScene.Record] {
        (0..<count)
            .map {
                scene.update(
                    "a\($0)",
                    at: scene.nowSeconds - 10,
                    otherMembers: #""token":"0af70af7","environment":"sandbox","#
                )
            }
    }

    @Test func `If Kafka refuses everything, the sending ends`() throws {
        let scene = try ReplayScene()
        let count = 2 * ReplaySender.failuresMax
        try scene.produce(commandsWithTokens(count, of: scene))
        try scene.commit([0: Int64(count)])
        scene.broker.failNextRequests(.produce, with: [Int32](repeating: 10, count: count))  // 10: MSG_SIZE_TOO_LARGE
        let run = try scene.replay("send", "--from", "1h", "--rate", "100", "--execute", "--json")
        #expect(run.exitCode == 1)
        #expect(run.errors.contains("stopped while sending"))
        let report = try #require(run.outputLines.last.flatMap { JSONValue(parsing: Array($0.utf8)) })
        let sent = try #require(report["sent"]?["sent"]?.integerValue)
        #expect(sent >= ReplaySender.failuresMax && sent < count)
        #expect(report["sent"]?["failed"]?.integerValue == sent && report["isComplete"] == .boolean(false))
    }

    @Test func `If Redis replies with an error, the replay reports what was sent and how to continue`() throws {
        let scene = try ReplayScene()
        let count = ReplayDecisions.entriesPerBatch + 1
        try scene.produce(commandsWithTokens(count, of: scene))
        try scene.commit([0: Int64(count)])
        // The invalid value makes the second batch fail.
        try scene.redis.ask("LPUSH", "{\(ReplayScene.app)=a\(count - 1)}", "no activity")
        let run = try scene.replay("send", "--from", "1h", "--rate", "100000", "--execute")
        #expect(run.exitCode == 1)
        #expect(
            run.output.contains(
                "\(ReplayDecisions.entriesPerBatch) sent, \(ReplayDecisions.entriesPerBatch) acknowledged, 0 failed"
            )
        )
        #expect(run.output.contains(#/\nsent +512  /#))
        #expect(run.errors.contains("causeway replay send: Redis replied: WRONGTYPE"), "\(run.errors)")
        #expect(run.errors.contains("stopped while sending; run the same command again to send the rest"))
    }

    @Test func `Ctrl-C ends a slow send in order, and the same command continues it`() throws {
        let (scene, end) = try makeScene()
        let directory = try TemporaryDirectory()
        let files = try ["out", "err"].map { try directory.write("", to: $0) }
        let process = scene.process(["send", "--from", "1h", "--execute", "--rate", "0.001"])
        process.standardOutput = try FileHandle(forWritingTo: files[0])
        process.standardError = try FileHandle(forWritingTo: files[1])
        process.standardInput = FileHandle.nullDevice
        try process.start()
        try eventually("a record that is sent") { try scene.recordCount() > end }
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        let errors = try String(contentsOf: files[1], encoding: .utf8)
        #expect(errors.contains("stopped while sending; run the same command again"))
        #expect(!errors.contains("█"), "without a terminal there is no progress bar")
        #expect(try String(contentsOf: files[0], encoding: .utf8).contains("1 sent, 1 acknowledged"))
        #expect(try scene.recordCount() == end + 1, "the rate delays the second record")
    }

    @Test func `A replay reads the records of a time, or of offsets in several partitions`() throws {
        let scene = try ReplayScene(partitionCount: 2)
        let nowSeconds = scene.nowSeconds
        for partition: Int32 in [0, 1] {
            let names = (0..<6).map { "a\(partition)-\($0)" }
            for name in names { try scene.register(name) }
            let records = names.enumerated()
                .map { minute, name in scene.update(name, at: nowSeconds - 600 + Int64(minute) * 60) }
            try scene.produce(records, partition: partition)
        }
        try scene.commit([0: 6, 1: 6])
        func reportedActivities(_ arguments: String...) throws -> [String] {
            let run = try ProgramRun.run(scene.process(["report", "--json", "--verbose"] + arguments))
            #expect(run.exitCode == 0, "\(run.errors)")
            return run.outputLines.dropLast().compactMap { JSONValue(parsing: Array($0.utf8))?["activity"]?.text }
                .sorted()
        }
        let formatter = ISO8601DateFormatter()
        func time(_ seconds: Int64) -> String { formatter.string(from: Date(timeIntervalSince1970: Double(seconds))) }
        #expect(
            try reportedActivities("--from", time(nowSeconds - 480), "--to", time(nowSeconds - 360)) == [
                "a0-2", "a0-3", "a1-2", "a1-3",
            ]
        )
        #expect(try reportedActivities("--from", time(nowSeconds - 301)) == ["a0-5", "a1-5"])
        #expect(try reportedActivities("--from", "1s") == [])
        #expect(try reportedActivities("--offsets", "0:1-2", "--offsets", "1:4-") == ["a0-1", "a0-2", "a1-4", "a1-5"])
    }

    @Test func `Dead letters are sent to the commands topic once they are valid`() throws {
        let scene = try ReplayScene()
        try scene.register("a")
        try scene.produce([scene.update("a", at: scene.nowSeconds - 10)], to: "causeway.dead-letters")
        let run = try scene.replay("send", "--topic", "causeway.dead-letters", "--from", "1h", "--execute")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(try scene.records(from: 0).map(\.replayed) == ["causeway.dead-letters/0/0"])
    }

    @Test func `A full table is reported, and each command is counted`() throws {
        let scene = try ReplayScene()
        let padding = String(repeating: "x", count: 3_000)
        let records = (0..<500)
            .map {
                scene.update(
                    "a\($0)",
                    at: scene.nowSeconds - 10,
                    otherMembers: #""payload":{"padding":"\#(padding)"},"#
                )
            }
        try scene.produce(records)
        try scene.commit([0: 500])
        let run = try scene.replay("report", "--from", "1h", "--memory", "1", "--json")
        #expect(run.exitCode == 1)
        #expect(run.errors.contains("the commands exceed --memory 1: choose a smaller range"))
        let counts = try scene.reasonCounts(run)
        let (keptCount, leftOutCount) = (counts["tokenUnknown"] ?? 0, counts["tableFull"] ?? 0)
        #expect(keptCount > 100 && leftOutCount > 100 && keptCount + leftOutCount == 500)
    }

    @Test func `A missing topic, an unknown app and a missing file are reported`() throws {
        let scene = try ReplayScene()
        scene.broker.setMetadataError(topic: "missing", code: 3)  // 3: UNKNOWN_TOPIC_OR_PARTITION
        let runWithoutTopic = try scene.replay("report", "--from", "1h", "--topic", "missing")
        #expect(
            runWithoutTopic.exitCode == 1
                && runWithoutTopic.errors.contains("causeway replay report: Kafka at 127.0.0.1:")
        )
        let runForUnknownApp = try scene.replay("report", "--from", "1h", "--app", "com.example.other")
        #expect(runForUnknownApp.exitCode == 64)
        #expect(
            runForUnknownApp.errors
                == "Error: --app com.example.other: is not in the configuration, which has com.example.ride\n"
        )
        let process = ProgramRun.process(["replay", "report", "--from", "1h", "--config", "/nowhere"])
        #expect(try ProgramRun.run(process).exitCode == 78)
        let password = ["CAUSEWAY_REDIS_PASSWORD_FILE": "/nowhere"]
        let runWithoutPasswordFile = try ProgramRun.run(
            scene.process(["report", "--from", "1h"], environment: password)
        )
        #expect(
            runWithoutPasswordFile.exitCode == 78
                && runWithoutPasswordFile.errors.hasPrefix("causeway replay report: "),
            "\(runWithoutPasswordFile.errors)"
        )
    }
}
