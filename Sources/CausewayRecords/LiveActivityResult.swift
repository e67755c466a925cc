import Foundation

/// A record of `causeway.results`.
public enum LiveActivityResult: Hashable, Sendable {
    /// The outcome of one command or of an invalid registration. A push to one member of an audience also has such a
    /// result if APNs permanently refused the push.
    case command(CommandResult)
    /// The outcome of a command in one range of its audience.
    case range(RangeResult)
    /// The outcome of a command to an audience. Written when all its ranges and broadcasts are finished.
    case audience(AudienceResult)
    /// The outcome of a broadcast to a channel.
    case broadcast(BroadcastResult)

    /// The command's `id`. If it has none, or if the record could not be read: `topic/partition/offset` of the record.
    public var command: String {
        switch self {
        case .command(let result): result.command
        case .range(let result): result.command
        case .audience(let result): result.command
        case .broadcast(let result): result.command
        }
    }

    /// What became of the command, or of its part that this result is about.
    public var outcome: Outcome {
        switch self {
        case .command(let result): result.outcome
        case .range(let result): result.outcome
        case .audience(let result): result.outcome
        case .broadcast(let result): result.outcome
        }
    }
}

extension LiveActivityResult: Codable {
    /// Each of these fields occurs in only one kind of result: `attempts` in a command's, `segments` in a range's,
    /// `ranges` in an audience's. A broadcast's result has none of them.
    private enum DistinctiveFields: String, CodingKey { case attempts, segments, ranges }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: DistinctiveFields.self)
        if container.contains(.attempts) {
            self = .command(try CommandResult(from: decoder))
        } else if container.contains(.segments) {
            self = .range(try RangeResult(from: decoder))
        } else if container.contains(.ranges) {
            self = .audience(try AudienceResult(from: decoder))
        } else {
            self = .broadcast(try BroadcastResult(from: decoder))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .command(let result): try result.encode(to: encoder)
        case .range(let result): try result.encode(to: encoder)
        case .audience(let result): try result.encode(to: encoder)
        case .broadcast(let result): try result.encode(to: encoder)
        }
    }
}

extension LiveActivityResult: KafkaRecord {
    public static var defaultTopic: String { "causeway.results" }

    /// The id of the activity, channel, audience or device that the command addressed; in the result of a push to one
    /// member of an audience, the member's id. But if the outcome is `invalid`, the result's Kafka record has the key
    /// of the invalid record.
    public var key: String {
        switch self {
        case .command(let result): result.activity ?? result.channel ?? result.audience ?? result.device ?? ""
        case .range(let result): result.audience
        case .audience(let result): result.audience
        case .broadcast(let result): result.audience ?? result.channel
        }
    }
}

/// The result of a command to an activity or a device, of a push to one member of an audience that APNs refused, or of
/// an invalid record. A command to an audience or a channel has such a result only if nothing was sent.
public struct CommandResult: Codable, Hashable, Sendable {
    /// The command's `id` or, without one, `topic/partition/offset` of its record.
    public var command: String
    /// The app's bundle id; nil if the record could not be read or the app is unknown.
    public var app: String?
    /// The id of the activity; nil if the command addressed none.
    public var activity: String?
    /// The audience of the command, or of the member whose push failed.
    public var audience: String?
    /// The id of the channel that the command named itself.
    public var channel: String?
    /// The environment of ``channel``; nil without a channel.
    public var environment: PushEnvironment?
    /// The id of the device that a start addressed.
    public var device: String?
    /// What became of the command.
    public var outcome: Outcome
    /// The number of older commands that this command replaced and that have no result of their own.
    public var superseded: Int?
    /// The HTTP status of APNs' last response; nil if there was no response.
    public var status: Int?
    /// A reason of APNs, of Redis or of Causeway; if the outcome is `invalid`, the code of the fault.
    public var reason: String?
    /// `lifetime` if Causeway made this command because the activity's lifetime was over: an end, or the start that
    /// follows this end. Otherwise nil.
    public var cause: String?
    /// The `apns-id` of the push, with which Apple's console finds it.
    public var apnsId: String?
    /// The priority of the push that was sent, 5 or 10.
    public var priority: Int?
    /// True if the command requested priority 10, but the activity's budget allowed only 5, even if the command was
    /// then not sent.
    public var demoted: Bool?
    /// How many pushes of priority 10 the activity's budget still allows; nil if the budget was not checked.
    public var budgetLeft: Int?
    /// The fields that were dropped because the body was too large.
    public var dropped: [String]?
    /// The policy that the command named; nil if it named none.
    public var policy: String?
    /// The number of requests to APNs.
    public var attempts: Int
    /// `aps.timestamp` as it was sent, UNIX seconds; nil if nothing was sent.
    public var timestamp: Int64?
    /// The place of the command's record in Kafka.
    public var source: RecordSource
    /// The times of the command's steps, without `first` and `last`.
    public var times: ResultTimes
}

/// The result of a command to an audience in one of the audience's ranges. Each range has one.
public struct RangeResult: Codable, Hashable, Sendable {
    /// The command's `id` or, without one, `topic/partition/offset` of its record.
    public var command: String
    /// The app's bundle id.
    public var app: String
    /// The audience that the command addressed.
    public var audience: String
    /// The first and the last segment of the range. An audience has 256 segments, numbered from 0.
    public var segments: [Int]
    /// What became of the command in this range.
    public var outcome: Outcome
    /// How many of the range's members have each outcome.
    public var members: MemberCounts
    /// The place of the command's record in Kafka.
    public var source: RecordSource
    /// When APNs' `first` and `last` response to the range's pushes came; the other times are nil.
    public var times: ResultTimes
}

/// The result of a whole command to an audience. It has the sums of the ranges and broadcasts.
public struct AudienceResult: Codable, Hashable, Sendable {
    /// The command's `id` or, without one, `topic/partition/offset` of its record.
    public var command: String
    /// The app's bundle id.
    public var app: String
    /// The audience that the command addressed.
    public var audience: String
    /// What became of the whole command.
    public var outcome: Outcome
    /// How many of the audience's members have each outcome.
    public var members: MemberCounts
    /// The number of broadcasts, and not of members, with each outcome; nil if the command was not broadcast.
    public var broadcasts: MemberCounts?
    /// `none` if the audience should have had a channel when the command was fanned out, but lacked it in one
    /// environment or in both. `channelReason` then says why. Otherwise nil.
    public var channel: String?
    /// Why the audience had no channel: `notInTime`, `refused` or `notAwaited`. Nil if ``channel`` is nil.
    public var channelReason: String?
    /// How many ranges the audience was divided into.
    public var ranges: Int
    /// `alertExpired` if the alert was too old, so that the state was sent without the alert. Otherwise nil.
    public var reason: String?
    /// True if the command requested priority 10, but a budget allowed only 5 for all or some members, even if no push
    /// was sent to them.
    public var demoted: Bool?
    /// The fields that were dropped because the body was too large.
    public var dropped: [String]?
    /// `aps.timestamp` as it was sent, UNIX seconds.
    public var timestamp: Int64
    /// The place of the command's record in Kafka.
    public var source: RecordSource
    /// The times of the command's steps, without `received`, `sent` and `responded`.
    public var times: ResultTimes
}

/// The result of one broadcast: of a command to an audience in one environment, or of a command to a channel.
public struct BroadcastResult: Codable, Hashable, Sendable {
    /// The command's `id` or, without one, `topic/partition/offset` of its record.
    public var command: String
    /// The app's bundle id.
    public var app: String
    /// The audience of the channel; nil if the command named the channel itself.
    public var audience: String?
    /// The channel's id.
    public var channel: String
    /// The environment of the channel.
    public var environment: PushEnvironment
    /// What became of the broadcast.
    public var outcome: Outcome
    /// The HTTP status of APNs' last response; nil if there was no response.
    public var status: Int?
    /// A reason of APNs or of Causeway.
    public var reason: String?
    /// What an operator or the app's developer should do about `reason`.
    public var advice: String?
    /// The fields that were dropped because the body was too large.
    public var dropped: [String]?
    /// The place of the command's record in Kafka.
    public var source: RecordSource
    /// When APNs' `first` and `last` response to the broadcast came; the other times are nil.
    public var times: ResultTimes
}

/// How many members of an audience have each outcome. In ``AudienceResult/broadcasts``, the counts are of broadcasts
/// instead of members.
public struct MemberCounts: Codable, Hashable, Sendable {
    /// The counts; an outcome that is not in the dictionary did not occur.
    public var counts: [Outcome: Int]

    /// The count of an outcome; 0 if the outcome did not occur.
    public subscript(outcome: Outcome) -> Int { counts[outcome] ?? 0 }

    private static let memberOutcomes: Set<Outcome> = [
        .delivered, .superseded, .failed, .unregistered, .expired, .started,
    ]

    private struct AnyKey: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: AnyKey.self)
        counts = [:]
        for key in container.allKeys {
            let outcome = Outcome(rawValue: key.stringValue)
            // A later release may add a key that is no outcome of a member, with any kind of value. Such a key is
            // ignored if its value is no integer.
            counts[outcome] =
                Self.memberOutcomes.contains(outcome)
                ? try container.decodeIfPresent(Int.self, forKey: key) : try? container.decode(Int.self, forKey: key)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) }))
    }
}

/// The place of a record in Kafka.
public struct RecordSource: Codable, Hashable, Sendable {
    /// The name of the topic.
    public var topic: String
    /// The number of the partition.
    public var partition: Int
    /// The offset in the partition.
    public var offset: Int64
}

/// The times of a command's steps. Nil: the step did not happen, its time is not known, or this kind of result does not
/// report it.
public struct ResultTimes: Codable, Hashable, Sendable {
    /// The timestamp of the command's record in Kafka.
    public var record: Date?
    /// When the worker received the record.
    public var received: Date?
    /// When Redis decided about the command.
    public var admitted: Date?
    /// When the last push was sent.
    public var sent: Date?
    /// When APNs responded to the last push.
    public var responded: Date?
    /// When APNs first responded to a push of a range, a broadcast or a whole command to an audience; nil for a single
    /// command.
    public var first: Date?
    /// When APNs last responded to a push of a range, a broadcast or a whole command to an audience; nil for a single
    /// command.
    public var last: Date?

    private enum CodingKeys: String, CodingKey { case record, received, admitted, sent, responded, first, last }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        record = try container.decodeMillisecondsIfPresent(.record)
        received = try container.decodeMillisecondsIfPresent(.received)
        admitted = try container.decodeMillisecondsIfPresent(.admitted)
        sent = try container.decodeMillisecondsIfPresent(.sent)
        responded = try container.decodeMillisecondsIfPresent(.responded)
        first = try container.decodeMillisecondsIfPresent(.first)
        last = try container.decodeMillisecondsIfPresent(.last)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeMilliseconds(record, .record)
        try container.encodeMilliseconds(received, .received)
        try container.encodeMilliseconds(admitted, .admitted)
        try container.encodeMilliseconds(sent, .sent)
        try container.encodeMilliseconds(responded, .responded)
        try container.encodeMilliseconds(first, .first)
        try container.encodeMilliseconds(last, .last)
    }
}
