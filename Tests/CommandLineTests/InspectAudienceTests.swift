import CausewayConfiguration
import Foundation
import LiveActivity
import Redis
import Testbed
import Testing

@testable import ActivityStore
@testable import Audiences
@testable import CausewayWorker
@testable import causeway

/// An audience as lanes store it. It has 991 members: 1,000 joined, and nine left. One version is finished, and one is
/// in progress.
private final class AudienceScene {
    static let app = "com.example.match"
    static let audience = "final-2026"
    static let olderVersion = Version(timestamp: 1_790_000_000, sequence: 0)
    static let newerVersion = Version(timestamp: 1_790_000_001, sequence: 7)

    let directory: TemporaryDirectory
    let port: UInt16
    private let server: RunningProgram
    private let writer: AudienceWriter

    init() throws {
        directory = try TemporaryDirectory()
        (server, port) = try RunningProgram.startRedis(directory: directory)
        try directory.write(
            """
            kafka: {bootstrapServers: "127.0.0.1:1"}
            redis: {url: "redis://127.0.0.1:\(port)"}
            apps:
              match:
                bundleId: \(Self.app)
                teamId: ABCDE12345
                keyId: ABCDE12345
                keyFile: /nowhere/key.p8
            """,
            to: "causeway.yaml"
        )
        writer = try AudienceWriter(port: port, app: Self.app, audience: Self.audience)
        try joinMembers()
        try admitAndSettle(Self.olderVersion, rangeCount: 4)
        try finishRanges(of: Self.olderVersion)
        try beginRound()
    }

    private func joinMembers() throws {
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        let entries = (0..<1_000)
            .map { number in
                let identifier = Array("0c6ef1f2-8f5e-4d0d-9e0c-\(100_000_000_000 + number)".utf8)
                return MemberEntry(
                    location: identifier.withUnsafeBytes { MemberLocation(of: $0) },
                    isLeaving: false,
                    kind: number < 100 ? .device : .activity,
                    environment: number % 4 == 0 ? .sandbox : .production,
                    allowsFrequentUpdates: number % 2 == 0,
                    supportsChannels: number % 2 == 0,
                    changedAtMilliseconds: nowMilliseconds,
                    identifier: identifier,
                    token: Array("\(10_000_000 + number)".utf8)
                )
            }
        _ = try writer.perform(entries.map { .append($0) })
        // Some members leave, and one registers again.
        var changedEntries = Array(entries[990...])
        for index in changedEntries.indices.dropLast() {
            (changedEntries[index].isLeaving, changedEntries[index].token) = (true, [])
        }
        _ = try writer.perform(changedEntries.map { .append($0) })
    }

    func admitAndSettle(_ version: Version, rangeCount: UInt16) throws {
        let bucket = Policy.Bucket(pushes: 10, refillPerHour: 1, reservedForAlerts: 0)
        let admission = AudienceAdmission<[UInt8]>(
            version: version,
            digest: UInt64(version.timestamp),
            pace: Policy.Pace(
                spacingMilliseconds: 1,
                throttledSpacingMillisecondsMax: 1,
                throttleRecoveryMilliseconds: 1,
                budget: bucket,
                frequentBudget: bucket
            ),
            isEnd: false,
            isStart: false,
            requestsHighPriority: true,
            mayUseReserve: false,
            rangeCount: rangeCount,
            body: [],
            expirationSeconds: version.timestamp + 900_000_000
        )
        try eventually("the admission of \(version)") { try writer.perform(.admit(admission)).verdict != .wait }
        _ = try writer.perform(.settle(version: version))
    }

    private static func makeCounts(delivered: UInt32, superseded: UInt32 = 0) -> MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        counts[.delivered] = delivered
        counts[.superseded] = superseded
        return counts
    }

    private func makeRange(_ index: Int) throws -> SegmentRange {
        try #require(SegmentRange(index: index, rangeCount: 4))
    }

    func finishRanges(of version: Version) throws {
        for index in 0..<4 {
            let times = ResponseTimes(firstResponseAtMilliseconds: 5_000, lastResponseAtMilliseconds: 8_000)
            let counts = Self.makeCounts(delivered: 240, superseded: UInt32(index))
            _ = try writer.perform(.finishRange(makeRange(index), version: version, counts, times))
        }
    }

    func finishBroadcast(of version: Version) throws {
        let broadcast = FinishedBroadcast(environment: .production, rangeCount: 4, broadcastCount: 1)
        _ = try writer.perform(.finishBroadcast(broadcast, version: version, .delivered, ResponseTimes()))
    }

    /// Begins a second version, in four ranges. Range 0 has finished the version, but its last checkpoint is from an
    /// earlier time, when a quarter of its members had been reached. Range 1 has reached a quarter of its members.
    /// Ranges 2 and 3 have not begun.
    private func beginRound() throws {
        try admitAndSettle(Self.newerVersion, rangeCount: 4)
        let nowMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000)
        let times = ResponseTimes(
            firstResponseAtMilliseconds: nowMilliseconds - 2_000,
            lastResponseAtMilliseconds: nowMilliseconds
        )
        for (index, delivered) in [(0, 248), (1, 62)] as [(Int, UInt32)] {
            let range = try makeRange(index)
            let lap = range.ordinals.upperBound - range.ordinals.lowerBound
            var checkpoint = Checkpoint(completedPosition: lap + lap / 4, newestSettledVersion: Self.olderVersion)
            let counts = Self.makeCounts(delivered: delivered)
            checkpoint.entries = [.init(version: Self.newerVersion, startPosition: lap, counts: counts, times: times)]
            checkpoint.parkedPositions = [5, 6]
            _ = try writer.perform(.claim(range, claim: 1))
            _ = try writer.perform(.checkpoint(range, claim: 1, text: try #require(checkpoint.encode())))
        }
        _ = try writer.perform(
            .finishRange(makeRange(0), version: Self.newerVersion, Self.makeCounts(delivered: 248), times)
        )
    }

    /// Writes a channel to the audience's hash, as the keeper of channels does.
    func writeChannel(_ channel: String, _ environment: String, _ storage: ChannelEntry.Storage, at milliseconds: Int64)
        throws
    {
        let url = try RedisURL("redis://127.0.0.1:\(port)")
        try ChannelRegistry(configuration: RedisConfiguration(url: url))
            .writeChannelToAudienceHash(
                of: ChannelEntry(
                    app: Self.app,
                    environment: environment,
                    audience: Self.audience,
                    channel: channel,
                    storage: storage,
                    createdAtWallMilliseconds: milliseconds
                )
            )
    }

    func inspect(_ arguments: String...) throws -> ProgramRun {
        try RedisCommandLine(port: port)
            .ask(["ACL", "SETUSER", "viewer", "on", ">secret", "~{*", "+get", "+hgetall", "+time"])
        let environment = ["CAUSEWAY_REDIS_URL": "redis://viewer:secret@127.0.0.1:\(port)"]
        return try ProgramRun.run(
            ProgramRun.process(
                ["inspect", "--config", directory.path("causeway.yaml")] + arguments,
                environment: environment
            )
        )
    }
}

@Suite("causeway inspect --audience, with what lanes write", .serialized, .ownThread)
struct InspectAudienceTests {
    @Test func `An audience is shown in words: its members, its newest command, its rounds and their counts`() throws {
        let scene = try AudienceScene()
        let run = try scene.inspect("--audience", AudienceScene.audience)
        #expect(run.exitCode == 0, "\(run.errors)")
        let lines = run.outputLines
        func indentedLines(after label: String) throws -> [String] {
            let first = try #require(lines.firstIndex { $0.hasPrefix(label + " ") }, "\(lines)")
            let rest = lines[(first + 1)...].prefix { $0.hasPrefix(" ") }
            return [lines[first]] + rest
        }
        #expect(try indentedLines(after: "audience")[0].hasSuffix("final-2026 of com.example.match"))
        let members = try indentedLines(after: "members")
        #expect(
            members[0].hasSuffix("991, 10 % devices, 25 % sandbox, 45 % allow frequent updates, 5 % support channels")
        )
        #expect(members[1].contains(/on 2\d\d pages; \d to \d+ in each segment/))
        #expect(try indentedLines(after: "newest")[0].contains(/1790000001, .*, sequence 7: settled/))
        #expect(
            try indentedLines(after: "sent")[0].contains("an update")
                && indentedLines(after: "sent")[0].contains("as 1790000001")
        )
        let round = try indentedLines(after: "round")
        #expect(round[0].contains("31 % done, 1 of 4 ranges finished, 2 members are retried"))
        #expect(round[1].contains(/310 members, \d+ a second/))
        #expect(round[2].hasSuffix("1 in progress; slowest: 1 at 25 %"))
        let row = try #require(lines.last)
        #expect(row.contains(/1790000000  3 s +960 +6 +0 +0 +0 +0/), "\(row)")
        #expect(lines.contains { $0.hasPrefix("last rounds") && $0.contains("delivered") })
    }

    @Test func `The JSON of an audience has only as many rounds as requested`() throws {
        let scene = try AudienceScene()
        let run = try scene.inspect("--json", "--audience", AudienceScene.audience, "--results", "0")
        #expect(run.outputLines.count == 1)
        let report = try #require(JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
        let members = try #require(report["members"] as? [String: Any])
        #expect(members["count"] as? Int == 991 && members["isExact"] as? Bool == true)
        #expect((members["bySegment"] as? [Int])?.reduce(0, +) == 991)
        let round = try #require((report["underWay"] as? [[String: Any]])?.first)
        #expect(round["share"] as? Double == 0.3125 && round["rangesFinished"] as? Int == 1)
        #expect((round["members"] as? [String: Any])?["delivered"] as? Int == 310)
        #expect(((report["budget"] as? [String: Any])?["left"] as? Int) != nil)
        #expect((report["finished"] as? [Any])?.isEmpty == true)
    }

    @Test func `An audience's channels are shown in words and in JSON`() throws {
        let scene = try AudienceScene()
        #expect(
            try scene.inspect("--audience", AudienceScene.audience).outputLines.allSatisfy { !$0.hasPrefix("channel") }
        )
        let createdAtMilliseconds = Int64(Date().timeIntervalSince1970 * 1_000) - 7_200_000
        try scene.writeChannel("c2FuZGJveA==", "sandbox", .newest, at: createdAtMilliseconds)
        try scene.writeChannel("cHJvZHVjdGlvbg==", "production", .none, at: createdAtMilliseconds)
        let lines = try scene.inspect("--audience", AudienceScene.audience).outputLines
            .filter { $0.hasPrefix("channel ") }
        try #require(lines.count == 2, "\(lines)")
        #expect(
            lines[0].contains(/^channel   cHJvZHVjdGlvbg==, production, storage none; created 2 h( 0 min)? ago \(/),
            "\(lines)"
        )
        #expect(lines[1].contains(/^channel   c2FuZGJveA==, sandbox, storage newest; created 2 h/), "\(lines)")

        let run = try scene.inspect("--json", "--audience", AudienceScene.audience)
        let report = try #require(JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
        let channels = try #require(report["channels"] as? [[String: Any]])
        #expect(channels.map { $0["channel"] as? String } == ["cHJvZHVjdGlvbg==", "c2FuZGJveA=="])
        #expect(channels.map { $0["environment"] as? String } == ["production", "sandbox"])
        #expect(channels.map { $0["storage"] as? String } == ["none", "newest"])
        #expect(channels.allSatisfy { $0["createdAt"] as? Int64 == createdAtMilliseconds })
    }

    /// A broadcast may wait for hours, for example for a new channel. Until it ends, the command has no total result.
    @Test func `A round is under way until its broadcast has ended`() throws {
        let scene = try AudienceScene()
        let version = Version(timestamp: 1_790_000_002, sequence: 0)
        try scene.writeChannel("cHJvZHVjdGlvbg==", "production", .none, at: 1_790_000_000_000)
        try scene.admitAndSettle(version, rangeCount: 4)
        try scene.finishRanges(of: version)
        let linesDuringBroadcast = try scene.inspect("--audience", AudienceScene.audience).outputLines
        #expect(
            linesDuringBroadcast.contains {
                $0.hasPrefix("round ") && $0.hasSuffix("4 of 4 ranges finished, broadcasts not finished")
            },
            "\(linesDuringBroadcast)"
        )
        #expect(linesDuringBroadcast.last?.contains("1790000000") == true, "\(linesDuringBroadcast)")
        try scene.finishBroadcast(of: version)
        let linesAfterBroadcast = try scene.inspect("--audience", AudienceScene.audience).outputLines
        #expect(!linesAfterBroadcast.contains { $0.contains("4 of 4 ranges finished") }, "\(linesAfterBroadcast)")
        #expect(linesAfterBroadcast.contains { $0.contains(/1790000002  3 s +960 +6/) }, "\(linesAfterBroadcast)")
    }

    @Test func `Members on unread pages are estimated, and pages that lanes did not write are counted`() throws {
        let scene = try AudienceScene()
        let queries = try RedisQueries(
            configuration: RedisConfiguration(url: RedisURL("redis://127.0.0.1:\(scene.port)"))
        )
        defer { queries.close() }
        let keys = try #require(AudienceKeyWriter(app: AudienceScene.app, audience: AudienceScene.audience))
        let partialCensus = try AudienceCensus(of: keys, pagesMax: 100, queries)
        #expect(!partialCensus.isComplete && partialCensus.readPageCount == 100 && partialCensus.readMemberCount < 991)
        #expect((700...1_300).contains(partialCensus.estimatedMemberCount), "\(partialCensus.estimatedMemberCount)")
        #expect(partialCensus.memberCountsBySegment.count { $0 > 0 } > 80)
        let fullCensus = try AudienceCensus(of: keys, pagesMax: nil, queries)
        #expect(fullCensus.readMemberCount == 991 && fullCensus.unreadableValueCount == 0)
        let directory = String(decoding: keys.directoryKey(segment: 7), as: UTF8.self)
        try RedisCommandLine(port: scene.port).ask("SET", directory, "other")
        let censusWithForeignPage = try AudienceCensus(of: keys, pagesMax: nil, queries)
        #expect(
            censusWithForeignPage.unreadableValueCount == 1
                && censusWithForeignPage.readMemberCount == 991 - fullCensus.memberCountsBySegment[7]
        )
    }

    @Test func `An unknown audience is named, and options that exclude each other are refused`() throws {
        let scene = try AudienceScene()
        let run = try scene.inspect("--audience", "nobody")
        #expect(run.exitCode == 1)
        #expect(run.errorLines == ["causeway inspect: Redis has no audience nobody of com.example.match"])
        #expect(try scene.inspect("--audience", AudienceScene.audience, "activity").exitCode == 64)
        #expect(try scene.inspect("--all-members").exitCode == 64)
        #expect(try scene.inspect("--audience", "").exitCode == 64)
    }
}
