import CausewayWorker
import LiveActivity
import Numbers
import RecordTestbed

/// Writes random records with the worker's own writers.
struct WorkerWriter {
    private var randomness: SplitMix64

    init(seed: UInt64) { randomness = SplitMix64(seed: seed) }

    private let texts = [
        "m1:7f", "é😀\"\\/\n\u{1}\u{7F}", "com.example.scores", String(repeating: "x", count: 256),
    ]
    .map { Record($0) }
    private let policies = ["slow-1", "default"].map { Record($0) }
    private let dropped = ["lineups", "match.lineups,odds"].map { Record($0) }
    private let tokens = ["00ff00ff", RecordText.token].map { Record($0) }
    private static let channels = ["Y2g=", "dHN0LXNyY2gtY2hubA=="]

    private mutating func chance() -> Bool { Bool.random(using: &randomness) }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &randomness) }

    private mutating func bytes(_ records: [Record]) -> UnsafeRawBufferPointer {
        records[number(0...records.count - 1)].bytes
    }

    private mutating func text() -> UnsafeRawBufferPointer { bytes(texts) }

    private mutating func maybeText() -> UnsafeRawBufferPointer? { chance() ? text() : nil }

    private mutating func any<Value: CaseIterable>(_ type: Value.Type) -> Value where Value.AllCases == [Value] {
        Value.allCases[number(0...Value.allCases.count - 1)]
    }

    /// Returns a time in milliseconds between 2001 and 2096; -1 for none.
    private mutating func milliseconds() -> Int64 {
        chance() ? Int64(number(1_000_000_000_000...4_000_000_000_000)) : -1
    }

    private func written(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        write(&writer)
        return Array(writer.bytes)
    }

    mutating func result() -> [UInt8] {
        switch number(0...3) {
        case 0: commandResult()
        case 1: rangeResult()
        case 2: audienceResult()
        default: broadcastResult()
        }
    }

    private mutating func commandResult() -> [UInt8] {
        var result = ResultRecord(
            outcome: any(Outcome.self),
            sourceTopic: text(),
            sourcePartition: Int32(number(0...Int(Int32.max))),
            sourceOffset: Int64(number(0...Int.max))
        )
        (result.command, result.app, result.activity) = (maybeText(), maybeText(), maybeText())
        (result.audience, result.device, result.reason) = (maybeText(), maybeText(), maybeText())
        if chance() { result.channel = (text(), any(DeviceEnvironment.self)) }
        (result.superseded, result.status) = (number(0...2), chance() ? UInt16(number(100...599)) : 0)
        (result.isOfLifetime, result.isDemoted) = (chance(), chance())
        if chance() { result.apnsIdentifier = (randomness.next(), randomness.next()) }
        (result.priority, result.budgetLeft) = ([0, 5, 10][number(0...2)], number(-1...3))
        if chance() { result.dropped = bytes(dropped) }
        if chance() { result.policy = bytes(policies) }
        (result.attempts, result.timestamp) = (number(0...3), chance() ? 1_790_000_000 : -1)
        (result.recordMilliseconds, result.receivedMilliseconds) = (milliseconds(), milliseconds())
        (result.admittedMilliseconds, result.sentMilliseconds) = (milliseconds(), milliseconds())
        result.answeredMilliseconds = milliseconds()
        return written { result.write(to: &$0) }
    }

    private mutating func name(ofAudience: Bool) -> AudienceCommandReference {
        AudienceCommandReference(
            identifier: maybeText(),
            app: text(),
            audience: ofAudience ? text() : nil,
            sourceTopic: text(),
            sourcePartition: 3,
            sourceOffset: Int64(number(0...Int.max))
        )
    }

    private mutating func counts() -> MemberCounts {
        var counts = MemberCounts()
        for outcome in MemberOutcome.allCases where chance() { counts[outcome] = UInt32(number(0...1_000_000)) }
        return counts
    }

    private mutating func times() -> RoundTimes {
        RoundTimes(firstResponseMilliseconds: milliseconds(), lastResponseMilliseconds: milliseconds())
    }

    private mutating func rangeResult() -> [UInt8] {
        let count = 1 << number(0...8)
        guard let range = SegmentRange(index: number(0...count - 1), count: count) else { return [] }
        var result = RangeResultRecord(command: name(ofAudience: true), range: range, members: counts(), times: times())
        result.isSuperseded = chance()
        return written { result.write(to: &$0) }
    }

    private mutating func audienceResult() -> [UInt8] {
        var result = AudienceResultRecord(
            command: name(ofAudience: true),
            members: counts(),
            times: times(),
            timestamp: 1_790_000_000,
            rangeCount: 1 << number(0...8)
        )
        result.broadcasts = counts()
        if chance() { result.channelAbsence = any(ChannelAbsence.self) }
        (result.isSuperseded, result.isDemoted, result.isAlertExpired) = (chance(), chance(), chance())
        if chance() { result.dropped = bytes(dropped) }
        (result.recordMilliseconds, result.admittedMilliseconds) = (milliseconds(), milliseconds())
        return written { result.write(to: &$0) }
    }

    private mutating func broadcastResult() -> [UInt8] {
        guard let identifier = ChannelIdentifier(Self.channels[number(0...1)]) else { return [] }
        let channel = AudienceChannel(
            environment: any(DeviceEnvironment.self),
            storage: any(ChannelStorage.self),
            identifier: identifier
        )
        var result = BroadcastResultRecord(
            command: name(ofAudience: chance()),
            channel: channel,
            outcome: any(MemberOutcome.self),
            reason: chance() ? text() : UnsafeRawBufferPointer(start: nil, count: 0),
            times: times()
        )
        result.status = chance() ? UInt16(number(100...599)) : 0
        if chance() { result.advice = "create one" }
        if chance() { result.dropped = bytes(dropped) }
        return written { result.write(to: &$0) }
    }

    mutating func invalidation() -> [UInt8] {
        let record = InvalidationRecord(
            app: text(),
            address: chance() ? .activity(text()) : .device(text()),
            token: bytes(tokens),
            environment: any(DeviceEnvironment.self),
            reason: text(),
            invalidAtMilliseconds: Int64(number(1_000_000_000_000...4_000_000_000_000))
        )
        return written { record.write(to: &$0) }
    }

    mutating func channel() -> [UInt8] {
        var entry = ChannelEntry(
            app: "com.example.scores",
            environment: "\(any(DeviceEnvironment.self).name)",
            audience: ["m1", "é\"\\/"][number(0...1)],
            channel: Self.channels[number(0...1)],
            storage: chance() ? .newest : .none,
            createdAt: Int64(number(1_000_000_000_000...4_000_000_000_000))
        )
        if chance() { entry.state = .deleting }
        if chance() { entry.deleteAfter = Int64(number(1_000_000_000_000...4_000_000_000_000)) }
        if chance() { entry.isPublished = chance() }
        return entry.topicValue
    }
}
