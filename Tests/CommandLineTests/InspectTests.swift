import Foundation
import Testbed
import Testing

@Suite("causeway inspect, with the data of a real worker", .serialized, InspectSceneTrait(), .ownThread)
struct InspectTests {
    private func json(_ run: ProgramRun) throws -> [String: Any] {
        #expect(run.outputLines.count == 1)
        return try #require(JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
    }

    @Test func `An activity is shown in words, and without its token`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect("--app", InspectScene.app, InspectScene.startedActivity)
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(run.errors.isEmpty)
        for token in scene.tokens { #expect(!run.output.contains(token.prefix(16))) }
        let lines = run.outputLines
        func line(_ label: String) throws -> String { try #require(lines.first { $0.hasPrefix(label + " ") }) }
        #expect(try line("activity").hasSuffix("phone-7-RideAttributes-0 of com.example.ride"))
        #expect(
            try line("token").contains(/sha256 [0-9a-f]{12}, sandbox, registered .* ago \(.*\), no frequent updates/)
        )
        #expect(try line("waits").hasSuffix("nothing"))
        #expect(try line("budget").contains(/11 of 12 pushes of priority 10 left, 4 of them for alerts and ends/))
        #expect(try line("budget").hasSuffix("policy rides"))
        #expect(try line("life").contains("updates until"))
        let rows = lines.filter { $0.contains("accepted") }
        #expect(rows.count == 2)
        #expect(rows.first?.hasSuffix("update-1") == true)
    }

    @Test func `The JSON of an activity has its times, its budget and its results as in the topic`() throws {
        let scene = try #require(InspectScene.current)
        let report = try json(scene.inspect("--json", InspectScene.startedActivity))
        let nowMilliseconds = try #require(report["now"] as? Int)
        let token = try #require(report["token"] as? [String: Any])
        #expect((token["sha256"] as? String)?.count == 12)
        #expect(token["environment"] as? String == "sandbox")
        let sent = try #require(report["sent"] as? [String: Any])
        #expect((0..<3_600_000).contains(nowMilliseconds - (try #require(sent["at"] as? Int))))
        #expect(report["shownDigest"] is String)
        #expect(report["held"] is NSNull)
        let budget = try #require(report["budget"] as? [String: Any])
        #expect(budget["of"] as? Int == 12)
        #expect(budget["left"] as? Int == 11)
        #expect(budget["reserved"] as? Int == 4)
        #expect(((1...3_600_000).contains(try #require(budget["fullAt"] as? Int) - nowMilliseconds)))
        let life = try #require(report["updatesUntil"] as? Int) - nowMilliseconds
        #expect((25_200_000...28_800_000).contains(life))
        let results = try #require((report["results"] as? [String: Any])?["records"] as? [[String: Any]])
        #expect(results.map { $0["outcome"] as? String } == ["accepted", "accepted"])
        #expect(results[0]["command"] as? String == "update-1")
        #expect(results[0]["budgetLeft"] as? Int == 11)
        #expect((results[0]["times"] as? [String: Any])?["responded"] is Int)
    }

    @Test func `A held command is shown whole, with its expiration`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect(InspectScene.heldActivity)
        #expect(run.exitCode == 0, "\(run.errors)")
        let waits = try #require(run.outputLines.first { $0.hasPrefix("waits ") })
        #expect(waits.contains(/update of .* ago with an alert: until a token registers/))
        #expect(run.output.contains("content-state {"))
        #expect(run.output.contains(#""status":"driverArrived""#))
        #expect(run.output.contains(#"alert {"body":"White Prius","title":"Tomasz is on his way"}"#))
        #expect(run.outputLines.contains { $0.hasPrefix("token ") && $0.hasSuffix("none has been registered") })
        let record = try #require(json(scene.inspect("--json", InspectScene.heldActivity))["held"] as? [String: Any])
        #expect(record["id"] as? String == "update-2")
        #expect((record["aps"] as? [String: Any])?["content-state"] is [String: Any])
    }

    @Test func `A device is shown with its push-to-start tokens and the starts that it has left`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect("--device", "phone-7")
        #expect(run.exitCode == 0, "\(run.errors)")
        for token in scene.tokens { #expect(!run.output.contains(token.prefix(16))) }
        #expect(run.output.contains("5 of 6 starts left; full in"))
        #expect(run.outputLines.contains { $0.hasPrefix("RideAttributes") && $0.contains("sandbox") })
        let report = try json(scene.inspect("--json", "--device", "phone-7"))
        let tokens = try #require(report["tokens"] as? [[String: Any]])
        #expect(tokens.map { $0["attributesType"] as? String } == ["RideAttributes"])
        #expect((report["starts"] as? [String: Any])?["left"] as? Int == 5)
    }

    @Test func `An app is shown with counts, and with its busiest activities first`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect("--app", InspectScene.app)
        #expect(run.exitCode == 0, "\(run.errors)")
        let report = try json(scene.inspect("--app", InspectScene.app, "--json"))
        #expect(report["isComplete"] as? Bool == true)
        for (key, count) in [
            ("activities", 2), ("withToken", 1), ("held", 1), ("ended", 0), ("throttled", 0), ("outOfBudget", 0),
        ] {
            #expect(report[key] as? Int == count, "\(key)")
        }
        let busiestActivities = try #require(report["busiest"] as? [[String: Any]])
        #expect(busiestActivities.map { $0["activity"] as? String } == [InspectScene.startedActivity])
        #expect(run.outputLines.contains { $0.hasPrefix("phone-7-RideAttributes-0") && $0.contains("1 of 12") })
    }

    @Test func `An inspection only reads from Redis, so a user with read rights suffices`() throws {
        let scene = try #require(InspectScene.current)
        let contentsBefore = try scene.redis.contents()
        #expect(contentsBefore.count == 3)
        let allowed = ["+get", "+hgetall", "+scan", "+time"]
        try scene.redis.ask(["ACL", "SETUSER", "viewer", "on", ">secret", "~{*"] + allowed)
        let monitor = scene.redis.process(["MONITOR"])
        let output = Pipe()
        monitor.standardOutput = output
        monitor.standardError = FileHandle.nullDevice
        try monitor.start()
        defer { monitor.terminate() }
        var seenOutput = Data()
        func awaitOutput(_ text: String) throws {
            while seenOutput.range(of: Data(text.utf8)) == nil {
                let moreOutput = output.fileHandleForReading.availableData
                try #require(!moreOutput.isEmpty, "MONITOR ended")
                seenOutput.append(moreOutput)
            }
        }
        try awaitOutput("OK")
        let viewer = ["CAUSEWAY_REDIS_URL": "redis://viewer:secret@127.0.0.1:\(scene.redis.port)"]
        for arguments in [
            [InspectScene.startedActivity], [InspectScene.heldActivity], ["nobody"], ["--device", "phone-7"], [],
            ["--json"],
        ] {
            let run = try scene.inspect(arguments, environment: viewer)
            #expect(run.exitCode == (arguments == ["nobody"] ? 1 : 0), "\(arguments): \(run.errors)")
        }
        try scene.redis.ask("ECHO", "that was all")
        try awaitOutput("that was all")
        let commands = String(decoding: seenOutput, as: UTF8.self)
            .matches(of: /\] "([A-Za-z]+)"/)
            .map { $0.1.lowercased() }
        let reads: Set = ["auth", "get", "hgetall", "scan", "time", "echo", "command"]
        #expect(Set(commands).isSubset(of: reads), "\(commands)")
        #expect(Set(commands).isSuperset(of: ["get", "hgetall", "scan", "time"]))
        #expect(try scene.redis.contents() == contentsBefore)
    }

    @Test func `An unknown activity is reported with exit code 1, and its results are still shown`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect("nobody")
        #expect(run.exitCode == 1)
        #expect(run.errorLines == ["causeway inspect: Redis has no activity nobody of com.example.ride"])
        #expect(
            try scene.inspect("--device", "nobody").errorLines == [
                "causeway inspect: Redis has no device nobody of com.example.ride"
            ]
        )
        try scene.redis.ask("COPY", "{\(InspectScene.app)=\(InspectScene.startedActivity)}", "kept")
        try scene.redis.ask("DEL", "{\(InspectScene.app)=\(InspectScene.startedActivity)}")
        let runAfterDeletion = try scene.inspect(InspectScene.startedActivity)
        try scene.redis.ask("RENAME", "kept", "{\(InspectScene.app)=\(InspectScene.startedActivity)}")
        #expect(runAfterDeletion.exitCode == 1)
        #expect(runAfterDeletion.outputLines.filter { $0.contains("accepted") }.count == 2)
    }

    @Test func `A missing or refusing Redis, a missing Kafka, and an unknown app are reported`() throws {
        let scene = try #require(InspectScene.current)
        let runWithoutRedis = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_REDIS_URL": "redis://127.0.0.1:1"]
        )
        #expect(runWithoutRedis.exitCode == 1)
        #expect(runWithoutRedis.output.isEmpty)
        #expect(runWithoutRedis.errors.contains("127.0.0.1:1: "))
        try scene.redis.ask("ACL", "SETUSER", "nobody", "on", ">secret", "~*", "+ping")
        let runWithoutRights = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_REDIS_URL": "redis://nobody:secret@127.0.0.1:\(scene.redis.port)"]
        )
        #expect(runWithoutRights.exitCode == 1)
        #expect(runWithoutRights.errors.contains("lacks a permission"))
        for right in ["+hgetall", "+cluster|slots"] { #expect(runWithoutRights.errors.contains(right)) }
        #expect(!runWithoutRights.errors.contains("secret"))
        let runWithoutKafka = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
        )
        #expect(runWithoutKafka.exitCode == 0)
        let line = try #require(runWithoutKafka.outputLines.first { $0.hasPrefix("results ") })
        let words =
            /results +cannot be read: no Kafka broker responded at 127.0.0.1:1 within [0-9]+ s \(Connection refused\)/
        #expect(line.wholeMatch(of: words) != nil, "\(line)")
        let runForUnknownApp = try scene.inspect("--app", "com.example.other", InspectScene.startedActivity)
        #expect(runForUnknownApp.exitCode == 64)
        #expect(
            runForUnknownApp.errors.contains(
                "com.example.other: is not in the configuration, which has com.example.ride"
            )
        )
    }
}
