import ActivityStore
import CausewayConfiguration
import LiveActivity
import Redis
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

extension ReplayScene {
    /// Makes the registration of an activity that names audiences.
    fileprivate func member(_ activity: String, of audiences: [String], at seconds: Int64, token: String = "0af70af7")
        -> Record
    {
        let names = audiences.map { "\"\($0)\"" }.joined(separator: ",")
        let value = #"""
            {"app":"\#(Self.app)","activity":"\#(activity)","environment":"sandbox","token":"\#(token)",
             "registeredAt":\#(seconds * 1_000),"audiences":[\#(names)]}
            """#
        return Record(key: activity, value: value, timestampMilliseconds: seconds * 1_000)
    }

    fileprivate func device(_ device: String, of audience: String, at seconds: Int64) -> Record {
        let value = #"""
            {"app":"\#(Self.app)","device":"\#(device)","attributesType":"Ride","environment":"sandbox","token":"0af70af8",
             "registeredAt":\#(seconds * 1_000),"audiences":["\#(audience)"]}
            """#
        return Record(key: "\(device)/Ride", value: value, timestampMilliseconds: seconds * 1_000)
    }

    fileprivate func command(
        to audience: String,
        at timestamp: Int64,
        state: Int = 1,
        event: String = "update",
        hasAlert: Bool = false,
        otherMembers: String = ""
    ) -> Record {
        let alertMember = hasAlert ? #","alert":{"title":"Goal","body":"2:1"}"# : ""
        let start = event == "start" ? #","attributes-type":"Ride","attributes":{}"# : ""
        let aps =
            #"{"event":"\#(event)","timestamp":\#(timestamp),"content-state":{"n":\#(state)}\#(alertMember)\#(start)}"#
        let value = #"{"app":"\#(Self.app)","audience":"\#(audience)",\#(otherMembers)"aps":\#(aps)}"#
        return Record(key: audience, value: value, timestampMilliseconds: timestamp * 1_000)
    }

    fileprivate func writer(_ audience: String) throws -> AudienceWriter {
        try AudienceWriter(port: redis.port, app: Self.app, audience: audience)
    }

    /// Returns the members' tokens by their ids.
    fileprivate func members(of audience: String) throws -> [String: String] {
        let writer = try writer(audience)
        let segments = (0..<MemberLocation.segmentCount).map { UInt8($0) }
        let directories = try writer.perform(segments.map { .readDirectory(segment: $0) })
        var pages: [AudienceWriter.Operation] = []
        for (segment, directory) in zip(segments, directories) {
            for bound in try AudienceKeyWriter.bounds(ofDirectory: directory.bytes ?? []) {
                pages.append(.readPage(segment: segment, lowerBound: bound))
            }
        }
        var members: [String: String] = [:]
        let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { scratch.deallocate() }
        for reply in pages.isEmpty ? [] : try writer.perform(pages) {
            try (reply.bytes ?? [])
                .withUnsafeBytes { bytes in
                    let page = try #require(MemberPage(bytes))
                    let found = page.members(into: scratch, nowMilliseconds: nowSeconds * 1_000)
                    for reference in scratch[..<found.count] {
                        let member = try #require(page[reference])
                        var buffer = [UInt8](repeating: 0, count: max(Limits.tokenDigitsMax, Limits.identifierBytesMax))
                        let identifierByteCount = buffer.withUnsafeMutableBytes { member.writeIdentifier(to: $0) }
                        let name = String(decoding: buffer[..<identifierByteCount], as: UTF8.self)
                        let tokenByteCount = buffer.withUnsafeMutableBytes { member.writeToken(to: $0) }
                        members[name] = String(decoding: buffer[..<tokenByteCount], as: UTF8.self)
                    }
                }
        }
        return members
    }

    fileprivate func inspection(ofAudience audience: String) throws -> AudienceInspection {
        let url = try RedisURL("redis://127.0.0.1:\(redis.port)")
        let queries = try RedisQueries(configuration: RedisConfiguration(url: url))
        defer { queries.close() }
        let keys = try #require(AudienceKeyWriter(app: Self.app, audience: audience))
        return try AudienceInspection(fields: queries.readHash(keys.audienceKey))
    }

    fileprivate func admission(
        at timestamp: Int64,
        digest: UInt64 = 3,
        isEnd: Bool = false
    ) -> AudienceAdmission<[UInt8]> {
        let bucket = Policy.Bucket(pushes: 10, refillPerHour: 1, reservedForAlerts: 0)
        return AudienceAdmission(
            version: Version(timestamp: timestamp, sequence: 0),
            digest: digest,
            pace: Policy.Pace(
                spacingMilliseconds: 0,
                throttledSpacingMillisecondsMax: 0,
                throttleRecoveryMilliseconds: 1,
                budget: bucket,
                frequentBudget: bucket
            ),
            isEnd: isEnd,
            isStart: false,
            requestsHighPriority: false,
            mayUseReserve: false,
            rangeCount: 4,
            body: [],
            expirationSeconds: nowSeconds + 600
        )
    }
}

@Suite("causeway replay and audiences", .serialized, .ownThread)
struct ReplayAudienceTests {
    private func rebuiltCounts(_ run: ProgramRun) throws -> [String: Int] { try reportedCounts("rebuilt", in: run) }

    /// Writes registrations whose names say what becomes of the member. `over` is older than twelve hours, so its
    /// activity is over; `ended` gets an end in the test that sends one.
    private func produceRegistrations(_ scene: ReplayScene) throws {
        let nowSeconds = scene.nowSeconds
        try scene.produce(
            [
                scene.member("stays", of: ["final"], at: nowSeconds - 3_600),
                scene.member("moved", of: ["final"], at: nowSeconds - 3_600),
                scene.member("over", of: ["final"], at: nowSeconds - 13 * 3_600),
                scene.member("gone", of: ["final"], at: nowSeconds - 3_600),
                scene.member("left", of: ["final", "cup"], at: nowSeconds - 3_600),
                scene.member("ended", of: ["final"], at: nowSeconds - 3_600),
                scene.device("phone", of: "final", at: nowSeconds - 30 * 86_400),
                .init(key: "gone", value: nil, timestampMilliseconds: (nowSeconds - 1_800) * 1_000),
                scene.member("left", of: ["cup"], at: nowSeconds - 1_800),
                scene.member("moved", of: ["final"], at: nowSeconds - 1_800, token: "0bf70bf7"),
            ],
            to: ReplayScene.registrationsTopic
        )
    }

    @Test func `A rebuild restores the members that have not left or ended, and the newest state counts as sent`()
        throws
    {
        let scene = try ReplayScene()
        let nowSeconds = scene.nowSeconds
        try produceRegistrations(scene)
        let end = scene.update("ended", at: nowSeconds - 60)
        let commands = [
            scene.command(to: "final", at: nowSeconds - 200),
            scene.command(to: "final", at: nowSeconds - 100, state: 2, hasAlert: true),
            .init(
                key: end.key,
                value: end.value?.replacing("update", with: "end"),
                timestampMilliseconds: end.timestampMilliseconds
            ),
            scene.command(to: "forgotten", at: nowSeconds - 9 * 3_600), scene.command(to: "cup", at: nowSeconds - 50),
        ]
        try scene.produce(commands)
        try scene.commit([0: 4])

        let dryRun = try scene.replay("rebuild", "--offsets", "0:0-4", "--json")
        #expect(dryRun.exitCode == 0, "\(dryRun.errors)")
        #expect(try rebuiltCounts(dryRun)["audiencesWritten"] == 1 && rebuiltCounts(dryRun)["membersJoined"] == 9)
        #expect(try scene.redis.contents().isEmpty)

        let run = try scene.replay("rebuild", "--offsets", "0:0-4", "--json", "--execute")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(
            try rebuiltCounts(run) == [
                "registrationsWritten": 8, "registrationsOver": 1, "unregistered": 1, "statesWritten": 1,
                "statesTooOld": 1, "statesUnread": 1, "membersJoined": 9, "membersLeft": 3, "audiencesWritten": 1,
            ]
        )
        #expect(try scene.members(of: "final") == ["stays": "0af70af7", "moved": "0bf70bf7", "phone": "0af70af8"])
        #expect(try scene.members(of: "cup") == ["left": "0af70af7"])
        #expect(try scene.recordCount() == Int64(commands.count))

        let newestVersion = Version(timestamp: nowSeconds - 100, sequence: 0)
        let record = try scene.inspection(ofAudience: "final")
        #expect(
            record.newestVersion?.version == newestVersion && record.newestVersion?.isSettled == true
                && record.fanouts.allSatisfy(\.isFinished)
        )
        let writer = try scene.writer("final")
        let newestState = try writer.perform(.readNewestState)
        let body = String(decoding: newestState.bytes ?? [], as: UTF8.self)
        #expect(newestState.newestVersion == newestVersion && body.contains(#""n":2"#) && !body.contains("alert"))
        #expect(try writer.perform(.admit(scene.admission(at: nowSeconds - 150))).verdict == .superseded)
        #expect(try writer.perform(.admit(scene.admission(at: nowSeconds - 100))).verdict == .duplicate)
        let newerAdmission = try writer.perform(.admit(scene.admission(at: nowSeconds - 20, digest: 0x5A)))
        #expect(
            newerAdmission.verdict == .send && newerAdmission.grant?.rangeCount == 4,
            "no round is under way, so the number of ranges may change"
        )
    }

    /// The earlier command has four ranges, so the restored one has four too.
    @Test func `If an earlier command is unfinished, a rebuild finishes all ranges of the newest one`() throws {
        let scene = try ReplayScene()
        let nowSeconds = scene.nowSeconds
        let writer = try scene.writer("final")
        #expect(try writer.perform(.admit(scene.admission(at: nowSeconds - 200))).verdict == .send)
        try scene.produce([scene.command(to: "final", at: nowSeconds - 100)])
        try scene.commit([0: 1])
        let run = try scene.replay("rebuild", "--offsets", "0:0-0", "--json", "--execute")
        #expect(try rebuiltCounts(run) == ["audiencesWritten": 1], "\(run.errors)")
        let fanouts = try scene.inspection(ofAudience: "final").fanouts
        #expect(fanouts.map(\.rangeCount) == [4, 4] && fanouts.map(\.isFinished) == [false, true])
    }

    /// The worker admits the command after the rebuild has read Redis. If the rebuild then finished the ranges, their
    /// results would have no members, and the worker could send nothing.
    @Test func `A fan-out that a worker begins during a rebuild is left to the worker`() throws {
        let scene = try ReplayScene()
        let timestamp = scene.nowSeconds - 100
        let calls = try makeRebuildCalls(scene, timestamp: timestamp)
        let redis = RedisConfiguration(url: try RedisURL("redis://127.0.0.1:\(scene.redis.port)"))
        let (queries, store) = (try RedisQueries(configuration: redis), try BlockingStore(configuration: redis))
        defer {
            store.close()
            queries.close()
        }
        var rebuilder = ReplayRebuilder(
            scope: try makeScope(scene),
            queries: queries,
            store: store,
            callsPerSecond: nil,
            isCancelled: { false }
        )
        #expect(try scene.writer("final").perform(.admit(scene.admission(at: timestamp, digest: 5))).verdict == .send)
        try rebuilder.write([calls])
        #expect(rebuilder.tally.counts == [.audiencesKnown: 1])
        let inspection = try scene.inspection(ofAudience: "final")
        #expect(inspection.newestVersion?.isSettled == false)
        let fanout = try #require(inspection.fanouts.first)
        #expect(fanout.rangeCount == 4 && fanout.finishedRanges.isEmpty && !fanout.isFinished)
    }

    /// Otherwise the rebuild's fan-out would set the number of ranges of later commands for hours.
    @Test func `A fan-out of a rebuild is finished even if a worker has admitted a newer command`() throws {
        let scene = try ReplayScene()
        let timestamp = scene.nowSeconds - 100
        let calls = try makeRebuildCalls(scene, timestamp: timestamp)
        let store = try BlockingStore(
            configuration: RedisConfiguration(url: RedisURL("redis://127.0.0.1:\(scene.redis.port)"))
        )
        defer { store.close() }
        _ = try store.perform([calls.admissionCall], until: { false })
        let newerAdmission = scene.admission(at: timestamp + 1, digest: 5)
        #expect(try scene.writer("final").perform(.admit(newerAdmission)).verdict == .send)
        #expect(try calls.mustFinish(in: scene.inspection(ofAudience: "final")))
    }

    private func makeScope(_ scene: ReplayScene) throws -> ReplayScope {
        let loader = ConfigurationLoader(environment: [:], requiresFiles: false)
        let configuration = try loader.load(path: scene.directory.path("causeway.yaml"))
        return ReplayScope(configuration, contractRules: [nil], app: nil, activity: nil)
    }

    private func makeRebuildCalls(_ scene: ReplayScene, timestamp: Int64) throws -> AudienceRebuildCalls {
        let scope = try makeScope(scene)
        let candidate = ReplayCandidate(
            event: .update,
            version: Version(timestamp: timestamp, sequence: 0),
            audience: Array("final".utf8),
            partition: 0,
            offset: 0,
            timestampMilliseconds: timestamp * 1_000,
            value: Array(try #require(scene.command(to: "final", at: timestamp).value).utf8)
        )
        let redisKey = try #require(AudienceKeyWriter(app: ReplayScene.app, audience: "final")).audienceKey
        return try #require(AudienceRebuildCalls(candidate, redisKey: redisKey, appIndex: 0, scope: scope))
    }

    /// If the rebuild wrote the command, Redis would have its fan-out as finished with zero counts, before a worker has
    /// read this record and sent the pushes. A fan-out record may carry the alert of an older command.
    @Test(arguments: [false, true])
    func `A command whose fan-out waits in the fan-out topic is left to the workers`(carriesOlderAlert: Bool) throws {
        let scene = try ReplayScene()
        let timestamp = scene.nowSeconds - 100
        try scene.produce([scene.command(to: "final", at: timestamp)])
        try scene.commit([0: 1])
        let fanoutRecord = scene.command(
            to: "final",
            at: timestamp,
            hasAlert: carriesOlderAlert,
            otherMembers: carriesOlderAlert ? #""alertTimestamp":\#(timestamp - 5),"alertSequence":0,"# : ""
        )
        try scene.produce([fanoutRecord], to: "causeway.fanout")
        let run = try scene.replay("rebuild", "--offsets", "0:0-0", "--json", "--execute")
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(try rebuiltCounts(run) == ["statesUnread": 1])
        #expect(try scene.inspection(ofAudience: "final").newestVersion == nil)
    }

    @Test func `A second rebuild changes nothing, and a rebuild of only the tokens does not change the newest states`()
        throws
    {
        let scene = try ReplayScene()
        try produceRegistrations(scene)
        try scene.produce([scene.command(to: "final", at: scene.nowSeconds - 100)])
        try scene.commit([0: 1])
        let tokens = try scene.replay("rebuild", "--registrations", "--execute", "--json")
        #expect(try rebuiltCounts(tokens)["membersJoined"] == 9, "\(tokens.errors)")
        let members = try scene.members(of: "final")
        #expect(members.keys.sorted() == ["ended", "moved", "phone", "stays"])
        #expect(try scene.inspection(ofAudience: "final").newestVersion == nil)

        #expect(try rebuiltCounts(scene.replay("rebuild", "--execute", "--json"))["audiencesWritten"] == 1)
        let secondRebuild = try scene.replay("rebuild", "--execute", "--json")
        #expect(
            try rebuiltCounts(secondRebuild)["audiencesKnown"] == 1
                && rebuiltCounts(secondRebuild)["audiencesWritten"] == nil
        )
        #expect(try scene.members(of: "final") == members)
    }

    @Test func `The newest command of an audience is sent again if Redis does not know it`() throws {
        let scene = try ReplayScene()
        let nowSeconds = scene.nowSeconds
        for (audience, timestamp, isSettled, isEnd) in [
            ("newer", nowSeconds - 90, true, false), ("same", nowSeconds - 10, true, false),
            ("busy", nowSeconds - 10, false, false),
            ("older", nowSeconds, true, false), ("ended", nowSeconds - 90, true, true),
        ] {
            let writer = try scene.writer(audience)
            #expect(try writer.perform(.admit(scene.admission(at: timestamp, isEnd: isEnd))).verdict == .send)
            if isSettled { _ = try writer.perform(.settle(version: Version(timestamp: timestamp, sequence: 0))) }
        }
        let start = #""activity":"{device}-1","#
        let records = [
            scene.command(to: "newer", at: nowSeconds - 50), scene.command(to: "newer", at: nowSeconds - 10, state: 2),
            scene.command(to: "same", at: nowSeconds - 10), scene.command(to: "busy", at: nowSeconds - 10),
            scene.command(to: "older", at: nowSeconds - 10), scene.command(to: "ended", at: nowSeconds - 10),
            scene.command(to: "new", at: nowSeconds - 400, hasAlert: true),
            scene.command(to: "ancient", at: nowSeconds - 9 * 3_600),
            scene.command(to: "late", at: nowSeconds - 100, otherMembers: "\"expiration\":\(nowSeconds - 50),"),
            scene.command(to: "born", at: nowSeconds - 10, event: "start", hasAlert: true, otherMembers: start),
            scene.command(to: "unread", at: nowSeconds - 5),
        ]
        try scene.produce(records)
        try scene.commit([0: Int64(records.count) - 1])
        let expected = [
            "send": 2, "supersededInRange": 1, "duplicate": 1, "underWay": 1, "superseded": 1, "ended": 1,
            "audienceOver": 1, "expired": 1, "startLeftOut": 1, "unread": 1,
        ]
        let contentsBefore = try scene.redis.contents()
        let report = try scene.replay("report", "--offsets", "0:0-", "--json", "--verbose")
        #expect(report.exitCode == 0, "\(report.errors)")
        #expect(try scene.reasonCounts(report) == expected)
        let lines = report.outputLines.dropLast().compactMap { JSONValue(parsing: Array($0.utf8)) }
        let newerLine = lines.first { $0["audience"]?.text == "newer" }
        #expect(newerLine?["reason"]?.text == "send" && newerLine?["activity"] == nil)
        #expect(lines.first { $0["audience"]?.text == "new" }?["dropsAlert"] == .boolean(true))
        #expect(try scene.replay("report", "--offsets", "0:0-", "--verbose").output.contains("audience newer  update"))
        // A report about one activity contains nothing about audiences.
        #expect(
            try scene.reasonCounts(scene.replay("report", "--offsets", "0:0-", "--json", "--activity", "newer")) == [:]
        )

        let sent = try scene.replay("send", "--offsets", "0:0-", "--json", "--execute")
        #expect(try scene.reasonCounts(sent) == expected, "\(sent.errors)")
        let copies = try scene.records(from: Int64(records.count))
        #expect(copies.map(\.key).sorted() == ["new", "newer"])
        #expect(copies.first { $0.key == "newer" }?.value == records[1].value)
        #expect(try scene.redis.contents() == contentsBefore)
        let starts = try scene.replay("report", "--offsets", "0:0-", "--json", "--starts")
        #expect(try scene.reasonCounts(starts)["send"] == 3)
    }
}
