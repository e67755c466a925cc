import LiveActivity
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The scripts for audiences on a real server against their model, over random histories: the same replies, and the same pages byte by byte.
@Suite(.serialized, .ownThread) struct AudienceDifferentialTests {
    static let histories = ProcessInfoVariable.integer("CAUSEWAY_AUDIENCE_HISTORIES") ?? 60
    private static let start: Int64 = 1_790_000_000_000

    @Test func `Replies about the record are the model's`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        try server.loadAudienceScriptsWithToldTime(caller)
        var verdicts: Set<AudienceVerdict> = []
        for seed in 0..<Self.histories {
            var history = RecordHistory(seed: UInt64(seed), nowMilliseconds: Self.start)
            var model = AudienceStoreModel(nowMilliseconds: Self.start)
            let audience = AudienceDigest(value: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15)
            var done: [AudienceCaller.Operation] = []
            for _ in 0..<80 {
                let operation = history.next()
                done.append(operation)
                server.tell(milliseconds: history.nowMilliseconds)
                model.nowMilliseconds = history.nowMilliseconds
                let reply = try caller.perform(operation, audience: audience)
                let expected = model.perform(
                    AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: operation)
                )
                try #require(
                    reply == expected,
                    "seed \(seed)\n\(done.suffix(20).map { "\($0)" }.joined(separator: "\n"))"
                )
                verdicts.insert(reply.verdict)
            }
        }
        let ofSegments: Set<AudienceVerdict> = [.pages, .page, .joined]
        #expect(verdicts == Set(AudienceVerdict.allCases).subtracting(ofSegments))
    }

    @Test(arguments: [1, 64]) func `Pages are the model's`(callsPerCommand: Int) throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server, callsPerCommandMax: callsPerCommand)
        try server.loadAudienceScriptsWithToldTime(caller)
        var pages = 0
        for seed in 0..<max(4, Self.histories / 10) {
            var random = SplitMix(state: UInt64(seed * 64 + callsPerCommand))
            var model = AudienceStoreModel(nowMilliseconds: Self.start)
            let audience = AudienceDigest(value: random.next())
            for _ in 0..<12 {
                // Less than a day in all: in the server no time passes, so nothing expires there.
                model.nowMilliseconds += Int64(random.below(7_000_000))
                server.tell(milliseconds: model.nowMilliseconds)
                for _ in 0..<random.below(800) {
                    let entry = Self.entry(&random, now: model.nowMilliseconds)
                    let reply = try caller.perform(.append(entry), audience: audience)
                    #expect(reply.verdict == .joined)
                    _ = model.perform(
                        AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: .append(entry))
                    )
                }
                pages = max(pages, try expectPages(of: model, caller, audience, "seed \(seed)"))
            }
        }
        #expect(pages > 8)
    }

    private func expectPages(
        of model: AudienceStoreModel,
        _ caller: AudienceCaller,
        _ audience: AudienceDigest,
        _ note: Comment
    ) throws -> Int {
        var model = model
        func both(_ operation: AudienceCaller.Operation) throws -> [UInt8] {
            let found = try caller.perform(operation, audience: audience)
            let call = AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: operation)
            try #require(found == model.perform(call), note)
            return found.bytes ?? []
        }
        let bounds = AudienceScene.bounds(ofDirectory: try both(.directory(segment: 0)))
        for bound in bounds { _ = try both(.page(segment: 0, lowerBound: bound)) }
        return bounds.count
    }

    /// Out of order, some of members that cannot live any more, now and then of a device.
    private static func entry(_ random: inout SplitMix, now: Int64) -> MemberEntry<[UInt8]> {
        let ages: [Int64] = [0, 0, 1_000, 600_000, 5_000_000, 44_000_000]
        let scene = AudienceScene(random: &random, member: random.below(4_800), now: now - random.pick(ages))
        var entry = scene.entry
        if random.below(40) == 0 { entry.kind = .device }
        entry.environment = random.below(4) == 0 ? .sandbox : .production
        entry.frequentUpdates = random.below(2) == 0
        return entry
    }
}

/// Random calls about one audience's record.
struct RecordHistory {
    var random: SplitMix
    var nowMilliseconds: Int64
    private var last: Version?

    init(seed: UInt64, nowMilliseconds: Int64) {
        random = SplitMix(state: seed &+ 1)
        self.nowMilliseconds = nowMilliseconds
    }

    private static let pace = Policy.Pace(
        spacingMilliseconds: 1_000,
        throttledSpacingMaxMilliseconds: 60_000,
        throttleRecoveryMilliseconds: 60_000,
        budget: Policy.Bucket(pushes: 3, refillPerHour: 7, reservedForAlerts: 1),
        frequentBudget: Policy.Bucket(pushes: 5, refillPerHour: 1_000, reservedForAlerts: 2)
    )

    mutating func next() -> AudienceCaller.Operation {
        nowMilliseconds += random.pick([0, 0, 1, 300, 999, 1_000, 2_500, 60_000, 1_300_000])
        switch random.below(10) {
        case 0...3: return .admit(admission(version()))
        case 4: return .settle(version: version())
        case 5: return .newest
        case 6: return .claim(range(), claim: UInt64.max - UInt64(random.below(3)))
        case 7:
            let text = (0..<random.below(20)).map { _ in UInt8(random.below(256)) }
            return .checkpoint(range(), claim: UInt64.max - UInt64(random.below(3)), text: text)
        default:
            var counts = MemberCounts()
            for outcome in MemberCounts.Outcome.allCases where random.below(2) == 0 {
                counts[outcome] = random.below(30) == 0 ? .max : UInt32(random.below(1_000))
            }
            var times = RoundTimes()
            if random.below(3) > 0 {
                times.firstAnswerMilliseconds = nowMilliseconds - Int64(random.below(5_000))
                times.lastAnswerMilliseconds = nowMilliseconds
            }
            return .finish(range(), version: version(), counts, times)
        }
    }

    /// An update mostly, or an end or a start.
    mutating func admission(_ version: Version) -> AudienceAdmission<[UInt8]> {
        let kind = random.below(14)
        return AudienceAdmission(
            version: version,
            digest: UInt64.max - UInt64(random.below(4)),
            pace: Self.pace,
            isEnd: kind == 0,
            isStart: kind == 1,
            asksForHighPriority: random.below(2) == 0,
            mayUseReserve: random.below(3) == 0,
            rangeCount: random.pick([1, 2, 4]),
            body: Array("{\"aps\":{\"timestamp\":\(random.below(100))}}".utf8),
            expiration: nowMilliseconds / 1_000 + random.pick([-1, 0, 5, 100_000, 0])
        )
    }

    /// Often the last one again; else around the present second, so that some are newer than all before and some are not.
    private mutating func version() -> Version {
        if let last, random.below(3) == 0 { return last }
        let version = anotherVersion()
        last = version
        return version
    }

    private mutating func anotherVersion() -> Version {
        let timestamp = nowMilliseconds / 1_000 + Int64(random.below(6)) - 3
        return Version(timestamp: timestamp, sequence: random.pick([0, 0, 1, 1 << 40, UInt64.max]))
    }

    private mutating func range() -> SegmentRange {
        let count = random.pick([1, 2, 2, 4])
        guard let range = SegmentRange(index: random.below(count), count: count) else {
            preconditionFailure("a range within its bounds")
        }
        return range
    }
}
