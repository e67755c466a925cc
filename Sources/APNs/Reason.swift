/// Why APNs refused a push or a request about channels, or ends a connection. APNs gives the reason in the JSON body of
/// a response, or in the debug data of a GOAWAY frame.
///
/// Besides `absent` and `unknown`, the cases are all reasons in Apple's tables for `/3/device` and for channels
/// ("Handling notification responses from APNs", "Handling error responses from broadcast and channel requests").
public enum Reason: UInt8, Sendable, CaseIterable {
    /// No reason was given: for example, APNs accepted the push, or did not respond.
    case absent
    /// A reason was given, but it is none of the other cases. The status of the response then decides what the sender
    /// does (``ResponseDisposition``).
    case unknown
    case badCollapseId
    case badDeviceToken
    case badExpirationDate
    case badMessageId
    case badPriority
    case badTopic
    case deviceTokenNotForTopic
    case duplicateHeaders
    case idleTimeout
    case invalidPushType
    case missingDeviceToken
    case missingTopic
    case payloadEmpty
    case topicDisallowed
    case featureNotEnabled
    case missingChannelId
    case badChannelId
    case channelNotRegistered
    case badRequestParams
    case badRequestPayload
    case missingPushType
    case cannotCreateChannelConfig
    case badCertificate
    case badCertificateEnvironment
    case topicMismatch
    case expiredProviderToken
    case forbidden
    case invalidProviderToken
    case missingProviderToken
    case unrelatedKeyIdInToken
    case badEnvironmentKeyIdInToken
    case badPath
    case methodNotAllowed
    case expiredToken
    case unregistered
    case payloadTooLarge
    case tooManyProviderTokenUpdates
    case tooManyRequests
    case internalServerError
    case serviceUnavailable
    case shutdown

    /// Returns the reason with this spelling: `absent` if the text is empty, `unknown` if no reason has this
    /// spelling.
    public init(text: UnsafeRawBufferPointer) {
        self = .unknown
        guard !text.isEmpty else {
            self = .absent
            return
        }
        for (spelling, reason) in Reason.spellings where spelling.equals(text) {
            self = reason
            return
        }
    }

    /// Apple's spelling; empty for `absent` and `unknown`.
    public var text: StaticString {
        Reason.spellings.first { $0.reason == self }?.spelling ?? ""
    }

    /// The status that Apple documents for the reason; 0 for `absent` and `unknown`.
    public var documentedStatus: UInt16 {
        switch self {
        case .absent, .unknown: 0
        case .badCollapseId, .badDeviceToken, .badExpirationDate, .badMessageId, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed, .featureNotEnabled, .missingChannelId, .badChannelId,
            .channelNotRegistered, .badRequestParams, .badRequestPayload, .missingPushType,
            .cannotCreateChannelConfig:
            400
        case .badCertificate, .badCertificateEnvironment, .topicMismatch, .expiredProviderToken, .forbidden,
            .invalidProviderToken, .missingProviderToken, .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .expiredToken, .unregistered: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown: 503
        }
    }

    /// The spellings of the reasons. Apple's spelling comes first, because `text` returns the first one. Two reasons
    /// have a second spelling: Apple's broadcast page prints `Service Unavailable`, and a client library for APNs knows
    /// `BadEnvironmentKeyInToken`.
    private static let spellings: [(spelling: StaticString, reason: Reason)] = [
        ("ExpiredToken", .expiredToken),
        ("Unregistered", .unregistered),
        ("BadDeviceToken", .badDeviceToken),
        ("DeviceTokenNotForTopic", .deviceTokenNotForTopic),
        ("TooManyRequests", .tooManyRequests),
        ("TooManyProviderTokenUpdates", .tooManyProviderTokenUpdates),
        ("ExpiredProviderToken", .expiredProviderToken),
        ("InvalidProviderToken", .invalidProviderToken),
        ("InternalServerError", .internalServerError),
        ("ServiceUnavailable", .serviceUnavailable),
        ("Service Unavailable", .serviceUnavailable),
        ("Shutdown", .shutdown),
        ("IdleTimeout", .idleTimeout),
        ("PayloadTooLarge", .payloadTooLarge),
        ("PayloadEmpty", .payloadEmpty),
        ("BadCollapseId", .badCollapseId),
        ("BadExpirationDate", .badExpirationDate),
        ("BadMessageId", .badMessageId),
        ("BadPriority", .badPriority),
        ("BadTopic", .badTopic),
        ("DuplicateHeaders", .duplicateHeaders),
        ("InvalidPushType", .invalidPushType),
        ("MissingDeviceToken", .missingDeviceToken),
        ("MissingTopic", .missingTopic),
        ("TopicDisallowed", .topicDisallowed),
        ("BadCertificate", .badCertificate),
        ("BadCertificateEnvironment", .badCertificateEnvironment),
        ("Forbidden", .forbidden),
        ("MissingProviderToken", .missingProviderToken),
        ("UnrelatedKeyIdInToken", .unrelatedKeyIdInToken),
        ("BadEnvironmentKeyIdInToken", .badEnvironmentKeyIdInToken),
        ("BadEnvironmentKeyInToken", .badEnvironmentKeyIdInToken),
        ("BadPath", .badPath),
        ("MethodNotAllowed", .methodNotAllowed),
        ("ChannelNotRegistered", .channelNotRegistered),
        ("BadChannelId", .badChannelId),
        ("FeatureNotEnabled", .featureNotEnabled),
        ("MissingChannelId", .missingChannelId),
        ("BadRequestParams", .badRequestParams),
        ("BadRequestPayload", .badRequestPayload),
        ("MissingPushType", .missingPushType),
        ("CannotCreateChannelConfig", .cannotCreateChannelConfig),
        ("TopicMismatch", .topicMismatch),
    ]
}

extension Reason: CustomStringConvertible {
    /// The reason in log lines: Apple's spelling, `absent` or `unknown`.
    public var description: String {
        switch self {
        case .absent: "absent"
        case .unknown: "unknown"
        default: "\(text)"
        }
    }
}
