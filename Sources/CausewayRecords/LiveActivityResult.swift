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

public struct CommandResult: Codable, Hashable, Sendable {
    public var command: String
    public var app: String?
    public var activity: String?
    public var audience: String?
    public var channel: String?
    public var environment: PushEnvironment?
    public var device: String?
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
    public var apnsId: String?
    public var priority: Int?
    /// True if the command requested priority 10, but the activity's budget allowed only 5, even if the command was
    /// then not sent.
    public var demoted: Bool?
    /// How many pushes of priority 10 the activity's budget still allows; nil if the budget was not checked.
    public var budgetLeft: Int?
    /// The fields that were dropped because the body was too large.
    public var dropped: [String]?
    public var policy: String?
    public var attempts: Int
    /// `aps.timestamp` as it was sent, UNIX seconds; nil if nothing was sent.
    public var timestamp: Int64?
    public var source: RecordSource
    public var times: ResultTimes
}

public struct RangeResult: Codable, Hashable, Sendable {
    public var command: String
    public var app: String
    public var audience: String
    /// The first and the last segment of the range. An audience has 256 segments, numbered from 0.
    public var segments: [Int]
    public var outcome: Outcome
    public var members: MemberCounts
    public var source: RecordSource
    public var times: ResultTimes
}

public struct AudienceResult: Codable, Hashable, Sendable {
    public var command: String
    public var app: String
    public var audience: String
    public var outcome: Outcome
    public var members: MemberCounts
    /// The number of broadcasts with each outcome; nil if the command was not broadcast.
    public var broadcasts: MemberCounts?
    /// `none` if the audience should have had a channel when the command was fanned out, but lacked it in one
    /// environment or in both. `channelReason` then says why. Otherwise nil.
    public var channel: String?
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
    public var source: RecordSource
    public var times: ResultTimes
}

public struct BroadcastResult: Codable, Hashable, Sendable {
    public var command: String
    public var app: String
    public var audience: String?
    public var channel: String
    public var environment: PushEnvironment
    public var outcome: Outcome
    public var status: Int?
    public var reason: String?
    /// What an operator or the app's developer should do about `reason`.
    public var advice: String?
    /// The fields that were dropped because the body was too large.
    public var dropped: [String]?
    public var source: RecordSource
    public var times: ResultTimes
}

/// The number of members, or of broadcasts, with each outcome.
public struct MemberCounts: Codable, Hashable, Sendable {
    public var counts: [Outcome: Int]

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
    public var topic: String
    public var partition: Int
    public var offset: Int64
}

/// The times of a command's steps. Nil: the step did not happen, its time is not known, or this kind of result does not
/// report it.
public struct ResultTimes: Codable, Hashable, Sendable {
    /// The timestamp of the command's record in Kafka.
    public var record: Date?
    public var received: Date?
    public var admitted: Date?
    public var sent: Date?
    public var responded: Date?
    /// `first` and `last`: when the first and the last response of APNs came, to the pushes of a range, a broadcast, or
    /// a whole command to an audience. Nil in the result of a single command.
    public var first: Date?
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
