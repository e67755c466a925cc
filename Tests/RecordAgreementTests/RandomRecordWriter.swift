import CausewayWorker
import LiveActivity
import Numbers
import RecordTestbed

/// Writes random records with the worker's own writers.
struct RandomRecordWriter {
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    private let texts = [
        "m1:7f", "é😀\"\\/\n\u{1}\u{7F}", "com.example.scores", String(repeating: "x", count: 256),
    ]
    .map { Record($0) }
    private let policies = ["slow-1", "default"].map { Record($0) }
    private let droppedFields = ["lineups", "match.lineups,odds"].map { Record($0) }
    private let tokens = ["00ff00ff", RecordText.token].map { Record($0) }
    private static let channels = ["Y2g=", "dHN0LXNyY2gtY2hubA=="]

    private mutating func randomBool() -> Bool { Bool.random(using: &random) }

    private mutating func randomNumber(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    private mutating func randomBytes(_ records: [Record]) -> UnsafeRawBufferPointer {
        records[randomNumber(0...records.count - 1)].bytes
    }

    private mutating func randomText() -> UnsafeRawBufferPointer { randomBytes(texts) }

    private mutating func randomTextOrNil() -> UnsafeRawBufferPointer? { randomBool() ? randomText() : nil }

    private mutating func randomCase<Value: CaseIterable>(_ type: Value.Type) -> Value where Value.AllCases == [Value] {
        Value.allCases[randomNumber(0...Value.allCases.count - 1)]
    }

    /// Returns a time in milliseconds between 2001 and 2096; -1 for none.
    private mutating func randomMilliseconds() -> Int64 {
        randomBool() ? Int64(randomNumber(1_000_000_000_000...4_000_000_000_000)) : -1
    }

    private func jsonBytes(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        write(&writer)
        return Array(writer.bytes)
    }

    mutating func makeResult() -> [UInt8] {
        switch randomNumber(0...3) {
        case 0: makeCommandResult()
        case 1: makeRangeResult()
        case 2: makeAudienceResult()
        default: makeBroadcastResult()
        }
    }

    private mutating func makeCommandResult() -> [UInt8] {
        var result = ResultRecord(
            outcome: randomCase(Outcome.self),
            sourceTopic: randomText(),
            sourcePartition: Int32(randomNumber(0...Int(Int32.max))),
            sourceOffset: Int64(randomNumber(0...Int.max))
        )
        (result.commandIdentifier, result.app, result.activity) = (
            randomTextOrNil(), randomTextOrNil(), randomTextOrNil()
        )
        (result.audience, result.device, result.reason) = (randomTextOrNil(), randomTextOrNil(), randomTextOrNil())
        if randomBool() { result.channel = (randomText(), randomCase(APNsEnvironment.self)) }
        (result.supersededCount, result.status) = (
            randomNumber(0...2), randomBool() ? UInt16(randomNumber(100...599)) : 0
        )
        (result.isLifetimeCommand, result.isDemoted) = (randomBool(), randomBool())
        if randomBool() { result.apnsId = (random.next(), random.next()) }
        (result.priority, result.budgetLeft) = ([0, 5, 10][randomNumber(0...2)], randomNumber(-1...3))
        if randomBool() { result.droppedFieldNames = randomBytes(droppedFields) }
        if randomBool() { result.policy = randomBytes(policies) }
        (result.attemptCount, result.sentTimestamp) = (randomNumber(0...3), randomBool() ? 1_790_000_000 : -1)
        (result.recordTimestampMilliseconds, result.receivedAtMilliseconds) = (
            randomMilliseconds(), randomMilliseconds()
        )
        (result.admittedAtMilliseconds, result.sentAtMilliseconds) = (randomMilliseconds(), randomMilliseconds())
        result.responseAtMilliseconds = randomMilliseconds()
        return jsonBytes { result.write(to: &$0) }
    }

    private mutating func makeCommandReference(toAudience: Bool) -> AudienceCommandReference {
        AudienceCommandReference(
            identifier: randomTextOrNil(),
            app: randomText(),
            audience: toAudience ? randomText() : nil,
            sourceTopic: randomText(),
            sourcePartition: 3,
            sourceOffset: Int64(randomNumber(0...Int.max))
        )
    }

    private mutating func randomMemberCounts() -> MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        for outcome in MemberOutcome.allCases where randomBool() {
            counts[outcome] = UInt32(randomNumber(0...1_000_000))
        }
        return counts
    }

    private mutating func randomResponseTimes() -> ResponseTimes {
        ResponseTimes(
            firstResponseAtMilliseconds: randomMilliseconds(),
            lastResponseAtMilliseconds: randomMilliseconds()
        )
    }

    private mutating func makeRangeResult() -> [UInt8] {
        let count = 1 << randomNumber(0...8)
        guard let range = SegmentRange(index: randomNumber(0...count - 1), rangeCount: count) else { return [] }
        var result = RangeResultRecord(
            command: makeCommandReference(toAudience: true),
            range: range,
            memberCounts: randomMemberCounts(),
            times: randomResponseTimes()
        )
        result.isSuperseded = randomBool()
        return jsonBytes { result.write(to: &$0) }
    }

    private mutating func makeAudienceResult() -> [UInt8] {
        var result = AudienceResultRecord(
            command: makeCommandReference(toAudience: true),
            memberCounts: randomMemberCounts(),
            times: randomResponseTimes(),
            timestamp: 1_790_000_000,
            rangeCount: 1 << randomNumber(0...8)
        )
        result.broadcastCounts = randomMemberCounts()
        if randomBool() { result.channelAbsence = randomCase(ChannelAbsence.self) }
        (result.isSuperseded, result.isDemoted, result.wasAlertRemovedByAge) = (
            randomBool(), randomBool(), randomBool()
        )
        if randomBool() { result.droppedFieldNames = randomBytes(droppedFields) }
        (result.recordTimestampMilliseconds, result.admittedAtMilliseconds) = (
            randomMilliseconds(), randomMilliseconds()
        )
        return jsonBytes { result.write(to: &$0) }
    }

    private mutating func makeBroadcastResult() -> [UInt8] {
        guard let identifier = ChannelIdentifier(Self.channels[randomNumber(0...1)]) else { return [] }
        let channel = AudienceChannel(
            environment: randomCase(APNsEnvironment.self),
            storage: randomCase(ChannelStoragePolicy.self),
            identifier: identifier
        )
        var result = BroadcastResultRecord(
            command: makeCommandReference(toAudience: randomBool()),
            channel: channel,
            outcome: randomCase(MemberOutcome.self),
            reason: randomBool() ? randomText() : UnsafeRawBufferPointer(start: nil, count: 0),
            times: randomResponseTimes()
        )
        result.status = randomBool() ? UInt16(randomNumber(100...599)) : 0
        if randomBool() { result.advice = "create one" }
        if randomBool() { result.droppedFieldNames = randomBytes(droppedFields) }
        return jsonBytes { result.write(to: &$0) }
    }

    mutating func makeInvalidation() -> [UInt8] {
        let record = InvalidationRecord(
            app: randomText(),
            address: randomBool() ? .activity(randomText()) : .device(randomText()),
            token: randomBytes(tokens),
            environment: randomCase(APNsEnvironment.self),
            reason: randomText(),
            invalidAtMilliseconds: Int64(randomNumber(1_000_000_000_000...4_000_000_000_000))
        )
        return jsonBytes { record.write(to: &$0) }
    }

    mutating func makeChannel() -> [UInt8] {
        var entry = ChannelEntry(
            app: "com.example.scores",
            environment: "\(randomCase(APNsEnvironment.self).name)",
            audience: ["m1", "é\"\\/"][randomNumber(0...1)],
            channel: Self.channels[randomNumber(0...1)],
            storage: randomBool() ? .newest : .none,
            createdAtWallMilliseconds: Int64(randomNumber(1_000_000_000_000...4_000_000_000_000))
        )
        if randomBool() { entry.state = .deleting }
        if randomBool() {
            entry.deletionDueWallMilliseconds = Int64(randomNumber(1_000_000_000_000...4_000_000_000_000))
        }
        if randomBool() { entry.isPublished = randomBool() }
        return entry.recordValue
    }
}
