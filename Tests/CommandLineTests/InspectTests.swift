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

    @Test func `An activity for machines: times, budget and the results as in the topic`() throws {
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
        #expect((results[0]["times"] as? [String: Any])?["answered"] is Int)
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

    @Test func `A device: push-to-start tokens by attributes type, and the starts it has left`() throws {
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

    @Test func `An app: counts, and the busiest activities first`() throws {
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
        let busiest = try #require(report["busiest"] as? [[String: Any]])
        #expect(busiest.map { $0["activity"] as? String } == [InspectScene.startedActivity])
        #expect(run.outputLines.contains { $0.hasPrefix("phone-7-RideAttributes-0") && $0.contains("1 of 12") })
    }

    @Test
    func
        `Nothing is written: every key is unchanged, the server saw only reads, and an ACL user with read rights suffices`()
        throws
    {
        let scene = try #require(InspectScene.current)
        let before = try scene.redis.contents()
        #expect(before.count == 3)
        let allowed = ["+get", "+hgetall", "+scan", "+time"]
        try scene.redis.ask(["ACL", "SETUSER", "viewer", "on", ">secret", "~{*"] + allowed)
        let monitor = scene.redis.process(["MONITOR"])
        let output = Pipe()
        monitor.standardOutput = output
        monitor.standardError = FileHandle.nullDevice
        try monitor.start()
        defer { monitor.terminate() }
        var seen = Data()
        func awaitOutput(_ text: String) throws {
            while seen.range(of: Data(text.utf8)) == nil {
                let more = output.fileHandleForReading.availableData
                try #require(!more.isEmpty, "MONITOR ended")
                seen.append(more)
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
        let commands = String(decoding: seen, as: UTF8.self)
            .matches(of: /\] "([A-Za-z]+)"/)
            .map { $0.1.lowercased() }
        let reads: Set = ["auth", "get", "hgetall", "scan", "time", "echo", "command"]
        #expect(Set(commands).isSubset(of: reads), "\(commands)")
        #expect(Set(commands).isSuperset(of: ["get", "hgetall", "scan", "time"]))
        #expect(try scene.redis.contents() == before)
    }

    @Test func `An unknown activity: said plainly, with exit code 1, and its results are still shown`() throws {
        let scene = try #require(InspectScene.current)
        let run = try scene.inspect("nobody")
        #expect(run.exitCode == 1)
        #expect(run.errorLines == ["causeway inspect: Redis knows no activity nobody of com.example.ride"])
        #expect(
            try scene.inspect("--device", "nobody").errorLines == [
                "causeway inspect: Redis knows no device nobody of com.example.ride"
            ]
        )
        try scene.redis.ask("COPY", "{\(InspectScene.app)=\(InspectScene.startedActivity)}", "kept")
        try scene.redis.ask("DEL", "{\(InspectScene.app)=\(InspectScene.startedActivity)}")
        let forgotten = try scene.inspect(InspectScene.startedActivity)
        try scene.redis.ask("RENAME", "kept", "{\(InspectScene.app)=\(InspectScene.startedActivity)}")
        #expect(forgotten.exitCode == 1)
        #expect(forgotten.outputLines.filter { $0.contains("accepted") }.count == 2)
    }

    @Test func `Redis is missing or refuses; Kafka is missing; an app is not configured`() throws {
        let scene = try #require(InspectScene.current)
        let absent = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_REDIS_URL": "redis://127.0.0.1:1"]
        )
        #expect(absent.exitCode == 1)
        #expect(absent.output.isEmpty)
        #expect(absent.errors.contains("127.0.0.1:1: "))
        try scene.redis.ask("ACL", "SETUSER", "nobody", "on", ">secret", "~*", "+ping")
        let refused = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_REDIS_URL": "redis://nobody:secret@127.0.0.1:\(scene.redis.port)"]
        )
        #expect(refused.exitCode == 1)
        #expect(refused.errors.contains("lacks a permission"))
        for right in ["+hgetall", "+cluster|slots"] { #expect(refused.errors.contains(right)) }
        #expect(!refused.errors.contains("secret"))
        let silent = try scene.inspect(
            InspectScene.startedActivity,
            environment: ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"]
        )
        #expect(silent.exitCode == 0)
        let line = try #require(silent.outputLines.first { $0.hasPrefix("results ") })
        let words =
            /results +cannot be read: no Kafka broker responded at 127.0.0.1:1 within [0-9]+ s \(Connection refused\)/
        #expect(line.wholeMatch(of: words) != nil, "\(line)")
        let other = try scene.inspect("--app", "com.example.other", InspectScene.startedActivity)
        #expect(other.exitCode == 64)
        #expect(other.errors.contains("com.example.other: is not in the configuration, which has com.example.ride"))
    }
}
