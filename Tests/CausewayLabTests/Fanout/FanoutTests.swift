import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("A fan-out's figures")
struct FanoutTests {
    private static let goodFigures = FanoutFigures(
        memberCount: 1_000_000,
        workerCount: 1,
        overtakenAtPercent: 50,
        joinSeconds: 12.5,
        redisMicrosecondsPerJoin: 9.25,
        redisBytesPerMember: 150.5,
        fanoutSeconds: 8.25,
        pushCount: 1_500_000,
        workerCPUMicrosecondsPerPush: 1.75,
        redisCPUMicrosecondsPerPush: 0.12,
        h2loadMicrosecondsPerPush: 3.5,
        workerPeakMemoryBytes: 96 << 20,
        singleCommandsBeforeFanout: .init(commands: 5_000, p50Milliseconds: 5, p99Milliseconds: 20),
        singleCommandsDuringFanout: .init(commands: 4_100, p50Milliseconds: 7, p99Milliseconds: 31),
        resultRecordCount: 514,
        outcomes: ["superseded", "delivered"],
        resultsAddUp: true,
        staleScreenPhoneCount: 0,
        outdatedPushPhoneCount: 0,
        repeatedAlertPhoneCount: 0,
        unalertedPhoneCount: 0
    )

    @Test func `One fault is enough for a bad result`() {
        #expect(Self.goodFigures.hasSucceeded)
        for change in [
            { $0.staleScreenPhoneCount = 1 }, { $0.outdatedPushPhoneCount = 1 }, { $0.repeatedAlertPhoneCount = 1 },
            { $0.unalertedPhoneCount = 1 },
            { $0.resultsAddUp = false }, { $0.resultRecordCount = 515 },
        ] as [(inout FanoutFigures) -> Void] {
            var figures = Self.goodFigures
            change(&figures)
            #expect(!figures.hasSucceeded)
        }
    }

    @Test func `The JSON has the keys that other programs read`() throws {
        let json = try JSONEncoder().encode(Self.goodFigures)
        let object = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
        for key in [
            "members", "seconds", "pushes", "workerCPUMicrosecondsPerPush", "h2loadMicrosecondsPerPush",
            "redisCPUMicrosecondsPerPush", "redisBytesPerMember", "workerPeakMemoryBytes", "resultRecords", "wrong",
            "reversed", "alertedTwice",
        ] {
            #expect(object[key] is NSNumber, "\(key)")
        }
    }

    @Test func `The text has all figures`() {
        let lines = Self.goodFigures.report.split(separator: "\n").map(String.init)
        #expect(lines.first == "1,000,000 members, one worker, overtaken at 50 %: superseded, delivered in 8.25 s")
        #expect(lines.contains("1,500,000 pushes; 514 result records"))
        let single = "single commands: half within 5 ms, 99 of 100 within 20 ms; beside the round 7 and 31 ms "
        #expect(lines.contains(single + "(4,100 commands)"))
        #expect(
            lines.last
                == "1,000,000 of 1,000,000 phones show the newest state; 0 went back in time, 0 got an alert twice, 0 got none"
        )
    }

    @Test func `Results that do not add up are recognized`() throws {
        let results = try FanoutResults(bootstrapServers: "127.0.0.1:1")
        defer { results.close() }
        func add(_ json: String) { results.addRecord(Array(json.utf8)) }
        add(#"{"command":"a","audience":"final","segments":[0,127],"outcome":"delivered","members":{"delivered":3}}"#)
        add(
            #"{"command":"a","audience":"final","segments":[128,255],"outcome":"superseded","members":{"delivered":1,"superseded":2}}"#
        )
        #expect(!results.memberCountsAddUp("a", memberCount: 6), "without the command's own")
        add(#"{"command":"a","audience":"final","outcome":"superseded","members":{"delivered":4,"superseded":2}}"#)
        #expect(
            results.memberCountsAddUp("a", memberCount: 6) && !results.memberCountsAddUp("a", memberCount: 7)
                && !results.memberCountsAddUp("b", memberCount: 0)
        )
        add(#"{"command":"c","audience":"final","outcome":"invalid","reason":"audienceUnsupported"}"#)
        #expect(results.commandResults["c"] == .init(outcome: "invalid", reason: "audienceUnsupported", members: [:]))
        add(#"{"command":"d","activity":"x","outcome":"accepted"}"#)
        add("no JSON")
        #expect(results.resultRecordCount == 5)
        #expect(results.commandResults.count == 2 && results.memberCountsOfRanges.count == 1)
    }

    @Test func `An expired command is reported as one that did not reach every member`() throws {
        let results = try FanoutResults(bootstrapServers: "127.0.0.1:1")
        defer { results.close() }
        func addRecordAndFindProblem(_ command: String, _ members: String) -> String? {
            results.addRecord(Array(#"{"command":"\#(command)","audience":"final",\#(members)}"#.utf8))
            return results.commandResults[command]?.failureText(commandIdentifier: command)
        }
        #expect(addRecordAndFindProblem("a", #""outcome":"delivered","members":{"delivered":3}"#) == nil)
        #expect(addRecordAndFindProblem("b", #""outcome":"superseded","members":{"superseded":3}"#) == nil)
        #expect(
            addRecordAndFindProblem("c", #""outcome":"expired","members":{"delivered":2,"expired":1}"#)
                == "command c did not reach every member: its outcome is expired"
        )
        #expect(
            addRecordAndFindProblem("d", #""outcome":"invalid","reason":"audienceUnsupported""#)
                == "the workers did not fan out command d: its outcome is invalid (audienceUnsupported)"
        )
    }

    @Test func `Single commands before and during a fan-out are counted separately`() throws {
        let results = try FanoutResults(bootstrapServers: "127.0.0.1:1")
        defer { results.close() }
        results.singleCommandLoad = SingleCommandLoad(commandsPerSecond: 10, client: LoopbackHTTPClient(port: 1))
        func add(_ command: String, _ outcome: String, after milliseconds: Int) {
            let json =
                #"{"command":"\#(command)","activity":"x","outcome":"\#(outcome)","#
                + #""times":{"record":1000,"responded":\#(1_000 + milliseconds)}}"#
            results.addRecord(Array(json.utf8))
        }
        add("beside-before-0", "accepted", after: 3)
        add("beside-during-1", "accepted", after: 40)
        add("beside-during-2", "superseded", after: 900)
        add("fanout-1", "accepted", after: 900)
        let singleCommandLoad = try #require(results.singleCommandLoad)
        #expect(singleCommandLoad.resultCount == 3 && results.resultRecordCount == 0)
        #expect(singleCommandLoad.freshness(.before) == .init(commands: 1, p50Milliseconds: 3, p99Milliseconds: 3))
        #expect(singleCommandLoad.freshness(.during) == .init(commands: 1, p50Milliseconds: 40, p99Milliseconds: 40))
    }

    @Test func `The commands are those that the worker accepts`() throws {
        let (first, second) = (AudienceUpdate(number: 1, timestamp: 7), AudienceUpdate(number: 2, timestamp: 7))
        for content in [first, second] {
            let record = try #require(
                try JSONSerialization.jsonObject(with: Data(try content.makeRecord())) as? [String: Any]
            )
            #expect(record["audience"] as? String == "final" && record["activity"] == nil)
            let aps = try #require(record["aps"] as? [String: Any])
            #expect((aps["alert"] == nil) == (content.number == 2))
            let body = try #require(
                try JSONSerialization.jsonObject(with: Data(try content.makeBody())) as? [String: Any]
            )
            #expect(NSDictionary(dictionary: body) == ["aps": aps])
        }
        #expect(NSDictionary(dictionary: first.contentState) != NSDictionary(dictionary: second.contentState))
    }

    @Test func `The CPU times of threads and processes are read`() throws {
        #expect(ProcessCPUTime.cpuNanoseconds(schedstat: "1234567 89 3\n") == 1_234_567)
        #expect(ProcessCPUTime.cpuNanoseconds(schedstat: "") == nil)
        #expect(try #require(ProcessCPUTime.cpuMicroseconds(of: getpid())) > 0)
        let before = ProcessCPUTime.endedChildrenCPUMicroseconds
        let child = Process()
        child.executableURL = URL(fileURLWithPath: "/bin/sh")
        child.arguments = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]
        try child.start()
        child.waitUntilExit()
        #expect(ProcessCPUTime.endedChildrenCPUMicroseconds > before)
    }

    @Test func `The bar goes from empty to full`() {
        #expect(FanoutProgressBar.line("x", doneCount: 0, of: 0) == "  waiting for x")
        #expect(FanoutProgressBar.line("x", doneCount: 0, of: 8).filter { $0 == "░" }.count == 40)
        #expect(FanoutProgressBar.line("x", doneCount: 1_500, of: 1_000).filter { $0 == "█" }.count == 40)
    }
}
