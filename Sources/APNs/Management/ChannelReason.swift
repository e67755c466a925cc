/// Why APNs refused a broadcast or a request about channels: Apple's table for both, name by name, and what to do about it.
public enum ChannelReason: Sendable, Hashable, CaseIterable {
    case featureNotEnabled, missingChannelId, badChannelId, channelNotRegistered, badRequestParams, badRequestPayload
    case payloadEmpty, badMessageId, missingPushType, invalidPushType, cannotCreateChannelConfig, badExpirationDate
    case topicDisallowed, badPriority, missingChannelQueueSize
    case badCertificate, badCertificateEnvironment, topicMismatch, missingProviderToken, expiredProviderToken
    case invalidProviderToken
    case badPath, methodNotAllowed, payloadTooLarge, tooManyRequests, tooManyProviderTokenUpdates
    case internalServerError, serviceUnavailable, shutdown
    /// A reason that is in no table, or none at all: the status decides.
    case unknown

    init(text: UnsafeRawBufferPointer) {
        // Apple's page prints `Service Unavailable`.
        let word = String(decoding: text.filter { $0 != UInt8(ascii: " ") }, as: UTF8.self)
        self = Self.allCases.first { $0 != .unknown && $0.word == word } ?? .unknown
    }

    /// As APNs writes it.
    public var word: String {
        let name = "\(self)"
        return name.prefix(1).uppercased() + name.dropFirst()
    }

    /// Whether the same request may succeed later without anybody's doing.
    var isTransient: Bool {
        switch self {
        case .tooManyRequests, .tooManyProviderTokenUpdates, .expiredProviderToken, .internalServerError,
            .serviceUnavailable, .shutdown:
            true
        default: false
        }
    }

    /// What an operator does about it.
    public var advice: String {
        switch self {
        case .featureNotEnabled:
            "enable Broadcast Capability for the app on developer.apple.com (Identifiers, Push Notifications, Configure)"
        case .cannotCreateChannelConfig:
            "the app has 10,000 channels in this environment: delete some (causeway channels reconcile, causeway channels delete)"
        case .channelNotRegistered: "the channel does not exist in this environment, or has been deleted"
        case .badChannelId: "the channel's id is not base64 or too long"
        case .topicDisallowed: "the key's team does not own the bundle id, or the id has a topic's suffix"
        case .topicMismatch, .badCertificate, .badCertificateEnvironment:
            "the certificate is not for this app or environment"
        case .invalidProviderToken, .missingProviderToken: "check teamId, keyId and keyFile of the app"
        case .expiredProviderToken: "the clock of this machine may be wrong"
        case .tooManyRequests, .tooManyProviderTokenUpdates: "too many requests: try again later"
        case .internalServerError, .serviceUnavailable, .shutdown: "APNs cannot answer now: try again later"
        case .badExpirationDate: "a channel without storage takes the expiration 0 only"
        default: "the request is not one that APNs takes"
        }
    }
}
