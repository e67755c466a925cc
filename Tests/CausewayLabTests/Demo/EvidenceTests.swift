import CausewayCommandLine
import Foundation
import Kafka
import LiveActivity
import Testbed
import Testing

@testable import CausewayLab

@Suite("The evidence for a checker", .ownThread)
struct EvidenceTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func readLines(_ path: String) throws -> [[String: Any]] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
            .map { try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]) }
    }

    private let step = MatchStep(
        state: MatchState(phase: .live, innings: 1, battingTeam: "MI", bowlingTeam: "CSK"),
        alert: MatchStep.Alert(title: "\"SIX\"! É", body: "b")
    )

    @Test func `The journal names each command`() throws {
        let evidence = try EvidenceFiles(directory: directory.path("evidence"))
        let journal = try evidence.makeJournal()
        let beforeMilliseconds = Clock.wallMilliseconds
        for number in 1...2_000 {
            try journal.append(
                CommandJournal.LineTemplate(step, event: "update", sequence: number),
                activity: "m-0007"
            )
        }
        var quietStep = step
        quietStep.alert = nil
        try journal.append(CommandJournal.LineTemplate(quietStep, event: "end", sequence: 2_001), activity: "m-0008")
        try journal.flush()
        let lines = try readLines(evidence.commandsPath)
        #expect(lines.count == 2_001)
        #expect(lines[41]["command"] as? String == "42/m-0007" && lines[41]["activity"] as? String == "m-0007")
        #expect(lines[41]["event"] as? String == "update" && lines[41]["alert"] as? String == "\"SIX\"! É")
        let timeMilliseconds = try #require(lines[41]["time"] as? Int64)
        #expect((beforeMilliseconds...Clock.wallMilliseconds).contains(timeMilliseconds))
        #expect(lines[2_000]["alert"] is NSNull && lines[2_000]["event"] as? String == "end")
        #expect(lines[2_000]["state"] as? String == lines[0]["state"] as? String)
        #expect((lines[0]["state"] as? String)?.count == 16)
    }

    @Test func `The policy's file has the spacing, and the budget for frequent updates`() throws {
        let evidence = try EvidenceFiles(directory: directory.path("evidence"))
        var policy = Policy(name: "default")
        policy.frequentBudget = Policy.Bucket(pushes: 7, refillPerHour: 600, reservedForAlerts: 2)
        try evidence.writePolicy(policy)
        let object = try #require(try readLines(evidence.policyPath).first)
        #expect(object["spacingMilliseconds"] as? Int == 1_000)
        #expect(object["budget"] as? [String: Int] == ["pushes": 7, "refillPerHour": 600, "reservedForAlerts": 2])
    }

    @Test func `Files of an earlier run are deleted`() throws {
        let evidence = try EvidenceFiles(directory: directory.path("evidence"))
        for file in [evidence.commandsPath, evidence.pushesPath] { try TextFile.write("old\n", to: file) }
        _ = try EvidenceFiles(directory: directory.path("evidence"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path("evidence")).isEmpty)
        #expect(throws: LabError.self) { try EvidenceFiles(directory: "/nowhere/at/all") }
    }

    @Test func `The lines of a growing file are counted`() throws {
        let path = directory.path("lines")
        try TextFile.write("a\nb\nc", to: path)
        var lines = LineCounter(path: path)
        #expect(try lines.countLines() == 2)
        let file = try #require(FileHandle(forWritingAtPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data("\nd\n".utf8))
        #expect(try lines.countLines() == 4)
    }
}
