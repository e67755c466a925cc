import Foundation

/// A record of `causeway.invalidations`: APNs has responded that a token is not valid.
public struct Invalidation: Hashable, Sendable {
    /// The app's bundle id.
    public var app: String
    /// The activity's id, if the token is an update token. Nil for a push-to-start token: then `device` is set.
    public var activity: String?
    /// The device's id, if the token is a push-to-start token. Nil for an update token.
    public var device: String?
    /// The token that is not valid any more.
    public var token: PushToken
    /// The environment that the token belongs to.
    public var environment: PushEnvironment
    /// The reason from APNs' response, for example `Unregistered`.
    public var reason: String
    /// When the token became invalid; if APNs named no time, when Causeway received APNs' response. Ignore the record
    /// if the app received the token after this time: the token is valid.
    public var invalidAt: Date
}

// In this file `Codable` is implemented by hand, because times are numbers of milliseconds. A synthesized
// implementation would depend on the date strategy of each encoder.
extension Invalidation: KafkaRecord {
    public static var defaultTopic: String { "causeway.invalidations" }

    public var key: String { activity ?? device ?? "" }

    private enum CodingKeys: String, CodingKey { case app, activity, device, token, environment, reason, invalidAt }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        app = try container.decode(String.self, forKey: .app)
        activity = try container.decodeIfPresent(String.self, forKey: .activity)
        device = try container.decodeIfPresent(String.self, forKey: .device)
        token = try container.decode(PushToken.self, forKey: .token)
        environment = try container.decode(PushEnvironment.self, forKey: .environment)
        reason = try container.decode(String.self, forKey: .reason)
        invalidAt = try container.decodeMilliseconds(.invalidAt)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(app, forKey: .app)
        try container.encodeIfPresent(activity, forKey: .activity)
        try container.encodeIfPresent(device, forKey: .device)
        try container.encode(token, forKey: .token)
        try container.encode(environment, forKey: .environment)
        try container.encode(reason, forKey: .reason)
        try container.encodeMilliseconds(invalidAt, .invalidAt)
    }
}

/// A record of `causeway.channels`: the broadcast channel of an audience. A record without a value says that the
/// channel was deleted.
public struct Channel: Hashable, Sendable {
    /// The app's bundle id.
    public var app: String
    /// The environment of the channel. An audience may have a channel in each environment.
    public var environment: PushEnvironment
    /// The audience whose channel this is.
    public var audience: String
    /// Apple's id of the channel.
    public var channel: String
    /// `none` or `newest`: whether APNs stores the newest message for phones that are offline.
    public var storage: String
    /// When APNs created the channel.
    public var createdAt: Date
    /// `active` or `deleting`.
    public var state: String
    /// After this time the channel is deleted, because its audience has ended. Nil has two meanings:
    /// - `state` is `active`: no deletion is planned.
    /// - `state` is `deleting`: the channel is being deleted.
    public var deleteAfter: Date?
}

extension Channel: KafkaRecord {
    public static var defaultTopic: String { "causeway.channels" }

    public var key: String { "\(app)/\(environment.rawValue)/\(audience)" }

    private enum CodingKeys: String, CodingKey {
        case app, environment, audience, channel, storage, createdAt, state, deleteAfter
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        app = try container.decode(String.self, forKey: .app)
        environment = try container.decode(PushEnvironment.self, forKey: .environment)
        audience = try container.decode(String.self, forKey: .audience)
        channel = try container.decode(String.self, forKey: .channel)
        storage = try container.decode(String.self, forKey: .storage)
        createdAt = try container.decodeMilliseconds(.createdAt)
        state = try container.decode(String.self, forKey: .state)
        deleteAfter = try container.decodeMillisecondsIfPresent(.deleteAfter)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(app, forKey: .app)
        try container.encode(environment, forKey: .environment)
        try container.encode(audience, forKey: .audience)
        try container.encode(channel, forKey: .channel)
        try container.encode(storage, forKey: .storage)
        try container.encodeMilliseconds(createdAt, .createdAt)
        try container.encode(state, forKey: .state)
        try container.encodeMilliseconds(deleteAfter, .deleteAfter)
    }
}
