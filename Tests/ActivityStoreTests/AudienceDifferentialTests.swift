import LiveActivity
import Numbers
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Compares the scripts for audiences on a real server with their model, over random histories. All replies and all
/// bytes of the pages must be equal.
@Suite(.serialized, .ownThread) struct AudienceDifferentialTests {
    static let historyCount = ProcessInfoVariable.integer("CAUSEWAY_AUDIENCE_HISTORIES") ?? 60
    private static let startMilliseconds: Int64 = 1_790_000_000_000

    @Test func `Replies to calls about an audience's hash are equal to the model's`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        try server.loadAudienceScriptsWithSettableTime(caller)
        var verdicts: Set<AudienceVerdict> = []
        var grantWithChannelsCount = 0
        for seed in 0..<Self.historyCount {
            var history = AudienceOperationHistory(seed: UInt64(seed), nowMilliseconds: Self.startMilliseconds)
            var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
            let audience = AudienceDigest(value: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15)
            var performedOperations: [AudienceCaller.Operation] = []
            for _ in 0..<80 {
                if let (channel, environment) = history.nextChannelChange() {
                    try server.setChannel(channel, in: environment, of: audience)
                    model.setChannel(channel, in: environment, of: audience, app: AudienceScene.app)
                }
                let operation = history.nextOperation()
                performedOperations.append(operation)
                server.setTime(milliseconds: history.nowMilliseconds)
                model.nowMilliseconds = history.nowMilliseconds
                let reply = try caller.perform(operation, audience: audience)
                let expectedReply = model.perform(
                    AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: operation)
                )
                try #require(
                    reply == expectedReply,
                    "seed \(seed)\n\(performedOperations.suffix(20).map { "\($0)" }.joined(separator: "\n"))"
                )
                verdicts.insert(reply.verdict)
                if reply.grant != nil, reply.channels.count > 0 { grantWithChannelsCount += 1 }
            }
        }
        #expect(grantWithChannelsCount > 20)
        let segmentVerdicts: Set<AudienceVerdict> = [.directory, .page, .appended]
        #expect(verdicts == Set(AudienceVerdict.allCases).subtracting(segmentVerdicts))
    }

    /// The range and the broadcast of the version each have a result. The reply to the later result has both totals:
    /// of the members and of the broadcasts.
    @Test(arguments: [true, false])
    func `A version is finished when all its ranges and broadcasts are`(isRangeLast: Bool) throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let audience = AudienceDigest(value: 7)
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        let channel = AudienceChannel(environment: .sandbox, storage: .none, identifier: identifier)
        try server.setChannel(channel, in: .sandbox, of: audience)
        var history = AudienceOperationHistory(seed: 1, nowMilliseconds: Self.startMilliseconds)
        var admission = history.randomAdmission(Version(timestamp: Self.startMilliseconds / 1_000, sequence: 1))
        (admission.isStart, admission.rangeCount) = (false, 1)
        let granted = try caller.perform(.admit(admission), audience: audience)
        #expect(granted.channels == AudienceChannels(sandbox: channel))
        var counts = MemberOutcomeCounts()
        counts[.delivered] = 3
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        let broadcast = FinishedBroadcast(environment: .sandbox, rangeCount: 1, broadcastCount: 1)
        var calls: [AudienceCaller.Operation] = [
            .finishBroadcast(broadcast, version: admission.version, .failed, ResponseTimes()),
            .finishRange(range, version: admission.version, counts, ResponseTimes()),
        ]
        if !isRangeLast { calls.reverse() }
        let firstReply = try caller.perform(calls[0], audience: audience)
        #expect(firstReply.totals == nil && firstReply.unfinishedPartCount == 1)
        // Redis counts a repeated call only once, so its reply stays the same.
        #expect(try caller.perform(calls[0], audience: audience) == firstReply)
        let lastReply = try caller.perform(calls[1], audience: audience)
        var broadcastCounts = MemberOutcomeCounts()
        broadcastCounts[.failed] = 1
        #expect(lastReply.totals == counts && lastReply.broadcastCounts == broadcastCounts)
        #expect(try caller.perform(calls[0], audience: audience) == lastReply)
    }

    /// The end belongs to an earlier life, and arrives late. This happens, for example, if the topic is replayed.
    @Test func `An end that is older than the newest start is superseded, also after an update`() throws {
        let caller = try AudienceCaller(try RedisServer())
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        let audience = AudienceDigest(value: 7)
        func verdict(_ event: Event, _ sequence: UInt64) throws -> AudienceVerdict {
            var history = AudienceOperationHistory(seed: 1, nowMilliseconds: Self.startMilliseconds)
            var admission = history.randomAdmission(
                Version(timestamp: Self.startMilliseconds / 1_000, sequence: sequence)
            )
            (admission.isStart, admission.isEnd, admission.digest) = (event == .start, event == .end, sequence)
            admission.pace = .spaced(0)
            let verdict = try caller.perform(.admit(admission), audience: audience).verdict
            let call = AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: .admit(admission))
            #expect(model.perform(call).verdict == verdict)
            return verdict
        }
        #expect(try verdict(.update, 1) == .send)
        #expect(try verdict(.start, 5) == .send)
        #expect(try verdict(.end, 4) == .superseded)
        #expect(try verdict(.update, 8) == .send)
        #expect(try verdict(.end, 4) == .superseded)
        // An update never supersedes an end of its own life.
        #expect(try verdict(.end, 6) == .send)
        #expect(try verdict(.update, 9) == .ended)
    }

    /// The budget is used up with a bucket that fills in 15 hours, and a command has a bucket that fills in one hour.
    /// If the slower bucket is no longer configured, the faster one refills from empty.
    @Test(arguments: [false, true])
    func `An audience with an empty budget gets priority 10 after one refill`(isSlowBucketConfigured: Bool) throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        try server.loadAudienceScriptsWithSettableTime(caller)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        func push(_ sequence: UInt64, _ bucket: Policy.Bucket) throws -> AudienceGrant {
            var history = AudienceOperationHistory(seed: 1, nowMilliseconds: model.nowMilliseconds)
            var admission = history.randomAdmission(
                Version(timestamp: Self.startMilliseconds / 1_000, sequence: sequence)
            )
            (admission.isStart, admission.isEnd, admission.digest) = (false, false, sequence)
            (admission.requestsHighPriority, admission.mayUseReserve) = (true, true)
            admission.pace = Policy.Pace(
                spacingMilliseconds: 0,
                throttledSpacingMillisecondsMax: 60_000,
                throttleRecoveryMilliseconds: 60_000,
                budget: bucket,
                frequentBudget: bucket
            )
            server.setTime(milliseconds: model.nowMilliseconds)
            let reply = try caller.perform(.admit(admission))
            #expect(model.perform(AudienceScene.call(.admit(admission))) == reply)
            return try #require(reply.grant)
        }
        let slowBucket = Policy.Bucket(pushes: 15, refillPerHour: 1, reservedForAlerts: 5)
        var bucket = Policy.Bucket(pushes: 15, refillPerHour: 15, reservedForAlerts: 5)
        if isSlowBucketConfigured { bucket.longestFillSeconds = slowBucket.fillSeconds }
        for sequence in 1...15 { #expect(try !push(UInt64(sequence), slowBucket).isDemoted) }
        #expect(try push(16, bucket).priority == PushPriority.low)
        model.nowMilliseconds += bucket.intervalMilliseconds
        let grant = try push(17, bucket)
        let expectedPriority = isSlowBucketConfigured ? PushPriority.low : PushPriority.high
        #expect(grant.priority == expectedPriority && grant.frequentUpdatesPriority == expectedPriority)
        #expect(try push(18, bucket).priority == PushPriority.low)
    }

    /// A version may wait for APNs for hours, for example because one member's pool is unavailable. If a newer version
    /// had another number of ranges, two rounds would push to the same members.
    @Test func `A version gets as many ranges as an unfinished one of the last 12 hours`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        try server.loadAudienceScriptsWithSettableTime(caller)
        var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
        func grantedRangeCount(of sequence: UInt64, wanted: UInt16) throws -> UInt16 {
            var history = AudienceOperationHistory(seed: 1, nowMilliseconds: model.nowMilliseconds)
            var admission = history.randomAdmission(
                Version(timestamp: Self.startMilliseconds / 1_000, sequence: sequence)
            )
            (admission.isStart, admission.isEnd, admission.digest) = (false, false, sequence)
            admission.rangeCount = wanted
            server.setTime(milliseconds: model.nowMilliseconds)
            let reply = try caller.perform(.admit(admission))
            #expect(model.perform(AudienceScene.call(.admit(admission))) == reply)
            return try #require(reply.grant).rangeCount
        }
        let hourMilliseconds: Int64 = 3_600_000
        #expect(try grantedRangeCount(of: 1, wanted: 1) == 1)
        model.nowMilliseconds += 2 * hourMilliseconds
        #expect(try grantedRangeCount(of: 2, wanted: 8) == 1)
        model.nowMilliseconds += 12 * hourMilliseconds
        #expect(try grantedRangeCount(of: 3, wanted: 8) == 8)
    }

    @Test(arguments: [1, 64]) func `Pages are equal to the model's`(callsPerCommand: Int) throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server, callsPerCommandMax: callsPerCommand)
        try server.loadAudienceScriptsWithSettableTime(caller)
        var pageCount = 0
        for seed in 0..<max(4, Self.historyCount / 10) {
            var random = SplitMix64(seed: UInt64(seed * 64 + callsPerCommand))
            var model = AudienceStoreModel(nowMilliseconds: Self.startMilliseconds)
            let audience = AudienceDigest(value: random.next())
            for _ in 0..<12 {
                // No key expires: the server uses its own clock, which hardly advances, and in the model less than a
                // day passes.
                model.nowMilliseconds += Int64(random.below(7_000_000))
                server.setTime(milliseconds: model.nowMilliseconds)
                for _ in 0..<random.below(800) {
                    let entry = Self.randomEntry(&random, nowMilliseconds: model.nowMilliseconds)
                    let reply = try caller.perform(.append(entry), audience: audience)
                    #expect(reply.verdict == .appended)
                    _ = model.perform(
                        AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: .append(entry))
                    )
                }
                pageCount = max(pageCount, try expectPages(of: model, caller, audience, "seed \(seed)"))
            }
        }
        #expect(pageCount > 8)
    }

    /// Expects that the directory and the pages of the server and the model are equal. Returns the number of pages.
    private func expectPages(
        of model: AudienceStoreModel,
        _ caller: AudienceCaller,
        _ audience: AudienceDigest,
        _ note: Comment
    ) throws -> Int {
        var model = model
        func performOnBoth(_ operation: AudienceCaller.Operation) throws -> [UInt8] {
            let storeBytes = try caller.perform(operation, audience: audience)
            let call = AudienceCall(tag: 0, app: AudienceScene.app, audience: audience, operation: operation)
            try #require(storeBytes == model.perform(call), note)
            return storeBytes.bytes ?? []
        }
        let bounds = AudienceScene.bounds(ofDirectory: try performOnBoth(.readDirectory(segment: 0)))
        for bound in bounds { _ = try performOnBoth(.readPage(segment: 0, lowerBound: bound)) }
        return bounds.count
    }

    /// Returns a random entry. Some are older than the member's last entry. Some are so old that the member has
    /// expired. A few are those of devices. Of every fifth member, the entries are ahead of the clock instead.
    private static func randomEntry(_ random: inout SplitMix64, nowMilliseconds: Int64) -> MemberEntry<[UInt8]> {
        let ages: [Int64] = [0, 0, 1_000, 600_000, 5_000_000, 44_000_000]
        let member = random.below(4_800)
        let age = random.pick(ages)
        let scene = AudienceScene(
            random: &random,
            member: member,
            nowMilliseconds: member % 5 == 0 ? nowMilliseconds + age : nowMilliseconds - age
        )
        var entry = scene.entry
        if random.below(40) == 0 { entry.kind = .device }
        entry.environment = random.below(4) == 0 ? .sandbox : .production
        entry.allowsFrequentUpdates = random.below(2) == 0
        return entry
    }
}

/// Random calls about one audience's hash, and random changes of its channels.
struct AudienceOperationHistory {
    var random: SplitMix64
    var nowMilliseconds: Int64
    private var lastVersion: Version?

    init(seed: UInt64, nowMilliseconds: Int64) {
        random = SplitMix64(seed: seed &+ 1)
        self.nowMilliseconds = nowMilliseconds
    }

    private static let pace = Policy.Pace(
        spacingMilliseconds: 1_000,
        throttledSpacingMillisecondsMax: 60_000,
        throttleRecoveryMilliseconds: 60_000,
        budget: Policy.Bucket(pushes: 3, refillPerHour: 7, reservedForAlerts: 1),
        frequentBudget: Policy.Bucket(pushes: 5, refillPerHour: 1_000, reservedForAlerts: 2)
    )

    /// A pace whose budgets refill faster.
    private static let fastPace = Policy.Pace(
        spacingMilliseconds: 1_000,
        throttledSpacingMillisecondsMax: 60_000,
        throttleRecoveryMilliseconds: 60_000,
        budget: Policy.Bucket(pushes: 3, refillPerHour: 700, reservedForAlerts: 1),
        frequentBudget: Policy.Bucket(pushes: 5, refillPerHour: 36_000, reservedForAlerts: 2)
    )

    /// Returns a change of a channel between two calls: the new channel, or nil if it is deleted, and the environment.
    /// In most cases returns nil, because nothing changes.
    mutating func nextChannelChange() -> (channel: AudienceChannel?, environment: APNsEnvironment)? {
        guard random.below(8) == 0 else { return nil }
        let environment: APNsEnvironment = random.below(2) == 0 ? .production : .sandbox
        guard random.below(4) > 0, let identifier = ChannelIdentifier("dHN0LXNyY2gtY2hubA==") else {
            return (nil, environment)
        }
        let storage: ChannelStoragePolicy = random.below(2) == 0 ? .none : .newest
        return (AudienceChannel(environment: environment, storage: storage, identifier: identifier), environment)
    }

    mutating func nextOperation() -> AudienceCaller.Operation {
        nowMilliseconds += random.pick([0, 0, 1, 300, 999, 1_000, 2_500, 60_000, 1_300_000])
        switch random.below(12) {
        case 0...3: return .admit(randomAdmission(randomVersion()))
        case 4: return .settle(version: randomVersion())
        case 5: return .readNewestState
        case 6: return .claim(randomRange(), claim: UInt64.max - UInt64(random.below(3)))
        case 7:
            let text = (0..<random.below(20)).map { _ in UInt8(random.below(256)) }
            return .checkpoint(randomRange(), claim: UInt64.max - UInt64(random.below(3)), text: text)
        case 8, 9:
            return .finishBroadcast(randomBroadcast(), version: randomVersion(), random.pick(outcomes), randomTimes())
        default:
            var counts = MemberOutcomeCounts()
            for outcome in MemberOutcome.allCases where random.below(2) == 0 {
                counts[outcome] = random.below(30) == 0 ? .max : UInt32(random.below(1_000))
            }
            return .finishRange(randomRange(), version: randomVersion(), counts, randomTimes())
        }
    }

    private let outcomes = MemberOutcome.allCases

    private mutating func randomTimes() -> ResponseTimes {
        var times = ResponseTimes()
        if random.below(3) > 0 {
            times.firstResponseAtMilliseconds = nowMilliseconds - Int64(random.below(5_000))
            times.lastResponseAtMilliseconds = nowMilliseconds
        }
        return times
    }

    private mutating func randomBroadcast() -> FinishedBroadcast {
        FinishedBroadcast(
            environment: random.below(2) == 0 ? .production : .sandbox,
            rangeCount: random.pick([1, 2, 2, 4]),
            broadcastCount: random.pick([1, 2])
        )
    }

    /// Returns a random admission: in most cases of an update, else of an end or a start.
    mutating func randomAdmission(_ version: Version) -> AudienceAdmission<[UInt8]> {
        let kind = random.below(14)
        return AudienceAdmission(
            version: version,
            digest: UInt64.max - UInt64(random.below(4)),
            pace: kind % 3 == 2 ? Self.fastPace : Self.pace,
            isEnd: kind == 0,
            isStart: kind == 1,
            requestsHighPriority: random.below(2) == 0,
            mayUseReserve: random.below(3) == 0,
            rangeCount: random.pick([1, 2, 4]),
            body: Array("{\"aps\":{\"timestamp\":\(random.below(100))}}".utf8),
            expirationSeconds: nowMilliseconds / 1_000 + random.pick([-1, 0, 5, 100_000, 0])
        )
    }

    /// Returns the last version, or another version near the present second. Some of these versions are newer
    /// than all earlier ones, and some are not.
    private mutating func randomVersion() -> Version {
        if let lastVersion, random.below(3) == 0 { return lastVersion }
        let version = randomVersionNearNow()
        lastVersion = version
        return version
    }

    private mutating func randomVersionNearNow() -> Version {
        let timestamp = nowMilliseconds / 1_000 + Int64(random.below(6)) - 3
        return Version(timestamp: timestamp, sequence: random.pick([0, 0, 1, 1 << 40, UInt64.max]))
    }

    private mutating func randomRange() -> SegmentRange {
        let count = random.pick([1, 2, 2, 4])
        guard let range = SegmentRange(index: random.below(count), rangeCount: count) else {
            preconditionFailure("a range within its bounds")
        }
        return range
    }
}

extension RedisServer {
    /// Writes a channel as the keeper of channels does: its storage, its creation time and its id. Nil deletes the
    /// channel.
    fileprivate func setChannel(
        _ channel: AudienceChannel?,
        in environment: APNsEnvironment,
        of audience: AudienceDigest
    ) throws {
        var memory = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        let count = memory.withUnsafeMutableBytes { memory in
            AudienceScene.app.withUnsafeBytes { AudienceStoreKey.write(app: $0, audience, to: memory) }
        }
        let key = Array(memory[..<(try #require(count))])
        let field = Array((environment == .production ? "hp" : "hs").utf8)
        guard let channel else {
            _ = command(bytes: [Array("HDEL".utf8), key, field])
            return
        }
        let createdAtBytes = withUnsafeBytes(of: Int64(1_790_000_000_000).littleEndian) { Array($0) }
        let value = [channel.storage.rawValue] + createdAtBytes + Array(channel.identifier.description.utf8)
        _ = command(bytes: [Array("HSET".utf8), key, field, value])
    }
}
