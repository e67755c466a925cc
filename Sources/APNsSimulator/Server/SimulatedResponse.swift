/// A response of the simulated APNs: success, or a refusal with a reason, usually one from Apple's tables for device
/// pushes, broadcasts and channels. Causeway's client has a table of its own: if one of the two tables has a wrong
/// entry, a test finds the difference.
public enum SimulatedResponse: UInt8, Sendable, CaseIterable {
    case success
    case badCollapseId, badDeviceToken, badExpirationDate, badMessageId, badPriority, badTopic, deviceTokenNotForTopic
    case duplicateHeaders, idleTimeout, invalidPushType, missingDeviceToken, missingTopic, payloadEmpty, topicDisallowed
    case expiredProviderToken, forbidden, invalidProviderToken, missingProviderToken, unrelatedKeyIdInToken
    case badEnvironmentKeyIdInToken
    case badPath, methodNotAllowed, expiredToken, unregistered, payloadTooLarge
    case tooManyProviderTokenUpdates, tooManyRequests, internalServerError, serviceUnavailable, shutdown
    // APNs gives the next reasons only for broadcasts and channels.
    case featureNotEnabled, missingChannelId, badChannelId, channelNotRegistered, badRequestParams, badRequestPayload
    case missingPushType, cannotCreateChannelConfig
    /// Apple does not document this reason, but a client library has seen it. Causeway's client handles it like any
    /// unknown reason.
    case missingChannelQueueSize

    /// The HTTP status of the response. A successful request about channels may get 201 or 204 instead of 200.
    public var status: Int {
        switch self {
        case .success: 200
        case .badCollapseId, .badDeviceToken, .badExpirationDate, .badMessageId, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed, .featureNotEnabled, .missingChannelId, .badChannelId,
            .channelNotRegistered, .badRequestParams, .badRequestPayload, .missingPushType, .cannotCreateChannelConfig,
            .missingChannelQueueSize:
            400
        case .expiredProviderToken, .forbidden, .invalidProviderToken, .missingProviderToken, .unrelatedKeyIdInToken,
            .badEnvironmentKeyIdInToken:
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

    /// The value of `reason` in the response's body; empty for success.
    public var text: String {
        switch self {
        case .success: ""
        default: String(describing: self).prefix(1).uppercased() + String(describing: self).dropFirst()
        }
    }
}
