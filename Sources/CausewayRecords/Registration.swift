import Foundation

/// A token of an activity or of a device, in hexadecimal digits.
public struct PushToken: Codable, Hashable, Sendable {
    /// The digits, in upper or lower case.
    public var digits: String

    public init(digits: String) { self.digits = digits }

    /// Makes a token from the bytes that ActivityKit gives the app.
    public init(_ bytes: some Sequence<UInt8>) {
        digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    public init(from decoder: any Decoder) throws {
        digits = try decoder.singleValueContainer().decode(String.self)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(digits)
    }
}

/// A record for `causeway.registrations`: a token, and the activity or device that it reaches. To unregister, write a
/// record with the same ``key`` and no value. A device has a key for each attributes type: to unregister the device,
/// write such a record for each of these keys (``key(device:attributesType:)``).
public struct Registration: Hashable, Sendable {
    /// What the token reaches.
    public enum Kind: Hashable, Sendable {
        /// The record registers the update token of a running activity.
        case activity(Activity)
        /// The record registers the push-to-start token of a device.
        case device(Device)
    }

    /// What a registration says about an activity.
    public struct Activity: Hashable, Sendable {
        /// The activity's id.
        public var id: String
        /// The value that `ActivityAuthorizationInfo().frequentPushesEnabled` has in the app. True gives the activity a
        /// larger budget of pushes.
        public var frequentUpdates: Bool?
        /// The state that the activity already shows: `aps.timestamp` and `sequence` of its command. Causeway then
        /// sends no older or equal state.
        public var shows: Version?

        public init(id: String, frequentUpdates: Bool? = nil, shows: Version? = nil) {
            self.id = id
            self.frequentUpdates = frequentUpdates
            self.shows = shows
        }
    }

    /// What a registration says about a device.
    public struct Device: Hashable, Sendable {
        /// The device's id.
        public var id: String
        /// The name of the type that conforms to `ActivityAttributes`.
        public var attributesType: String
        /// Whether activities may begin on a broadcast channel, which needs iOS 18 or newer.
        public var channels: Bool?

        public init(id: String, attributesType: String, channels: Bool? = nil) {
            self.id = id
            self.attributesType = attributesType
            self.channels = channels
        }
    }

    /// Names a state by the command that brought it.
    public struct Version: Codable, Hashable, Sendable {
        /// UNIX seconds.
        public var timestamp: Int64
        /// The command's `sequence`; nil if it has none.
        public var sequence: UInt64?

        public init(timestamp: Int64, sequence: UInt64? = nil) {
            self.timestamp = timestamp
            self.sequence = sequence
        }

        private enum CodingKeys: String, CodingKey { case timestamp, sequence }

        public init(from decoder: any Decoder) throws {
            if let timestamp = try? decoder.singleValueContainer().decode(Int64.self) {
                self.init(timestamp: timestamp)
                return
            }
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.init(
                timestamp: try container.decode(Int64.self, forKey: .timestamp),
                sequence: try container.decodeIfPresent(UInt64.self, forKey: .sequence)
            )
        }
    }

    /// The app's bundle id.
    public var app: String
    /// The environment that the token belongs to.
    public var environment: PushEnvironment
    /// When the app got the token. Of several registrations of one activity, or of one device and `attributesType`, the
    /// one with the latest time is valid.
    public var registeredAt: Date
    /// The token that is registered.
    public var token: PushToken
    /// Whether the token is of an activity or of a device.
    public var kind: Kind
    /// All audiences of the activity or device, at most 8; nil: none. The activity or device leaves all others.
    /// Exception: a device stays in an audience that its registration for another attributes type lists.
    public var audiences: [String]?

    public init(
        app: String,
        environment: PushEnvironment,
        registeredAt: Date = Date(),
        token: PushToken,
        _ kind: Kind,
        audiences: [String]? = nil
    ) {
        self.app = app
        self.environment = environment
        self.registeredAt = registeredAt
        self.token = token
        self.kind = kind
        self.audiences = audiences
    }
}

extension Registration: KafkaRecord {
    public static var defaultTopic: String { "causeway.registrations" }

    /// The activity's id; or for a device, ``key(device:attributesType:)``.
    public var key: String {
        switch kind {
        case .activity(let activity): activity.id
        case .device(let device): Self.key(device: device.id, attributesType: device.attributesType)
        }
    }

    /// The key of a device's registration: the id, a slash and the attributes type. The topic keeps the newest record
    /// of each key, so each attributes type needs a key of its own.
    public static func key(device: String, attributesType: String) -> String { "\(device)/\(attributesType)" }

    private enum CodingKeys: String, CodingKey {
        case app, environment, registeredAt, token, audiences
        case activity, frequentUpdates, shows
        case device, attributesType, channels
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        app = try container.decode(String.self, forKey: .app)
        environment = try container.decode(PushEnvironment.self, forKey: .environment)
        registeredAt = try container.decodeMilliseconds(.registeredAt)
        token = try container.decode(PushToken.self, forKey: .token)
        audiences = try container.decodeIfPresent([String].self, forKey: .audiences)
        if let device = try container.decodeIfPresent(String.self, forKey: .device) {
            kind = .device(
                Device(
                    id: device,
                    attributesType: try container.decode(String.self, forKey: .attributesType),
                    channels: try container.decodeIfPresent(Bool.self, forKey: .channels)
                )
            )
        } else {
            kind = .activity(
                Activity(
                    id: try container.decode(String.self, forKey: .activity),
                    frequentUpdates: try container.decodeIfPresent(Bool.self, forKey: .frequentUpdates),
                    shows: try container.decodeIfPresent(Version.self, forKey: .shows)
                )
            )
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(app, forKey: .app)
        try container.encode(environment, forKey: .environment)
        try container.encodeMilliseconds(registeredAt, .registeredAt)
        try container.encode(token, forKey: .token)
        try container.encodeIfPresent(audiences, forKey: .audiences)
        switch kind {
        case .activity(let activity):
            try container.encode(activity.id, forKey: .activity)
            try container.encodeIfPresent(activity.frequentUpdates, forKey: .frequentUpdates)
            try container.encodeIfPresent(activity.shows, forKey: .shows)
        case .device(let device):
            try container.encode(device.id, forKey: .device)
            try container.encode(device.attributesType, forKey: .attributesType)
            try container.encodeIfPresent(device.channels, forKey: .channels)
        }
    }
}
