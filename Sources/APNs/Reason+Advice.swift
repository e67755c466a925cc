extension Reason {
    /// What an operator can do when APNs refuses a broadcast or a request about channels; empty if there is no advice.
    ///
    /// ``ResponseDisposition/retryHelps`` says whether a retry helps.
    public var advice: StaticString {
        switch self {
        case .featureNotEnabled:
            "enable Broadcast Capability for the app on developer.apple.com (Identifiers, Push Notifications, Configure)"
        case .cannotCreateChannelConfig:
            """
            the app has 10,000 channels in this environment: delete some (causeway channels reconcile, causeway \
            channels delete)
            """
        case .channelNotRegistered:
            "the channel does not exist in this environment: create a channel, or name one of this app and environment"
        case .badChannelId:
            "the channel id is not base64 or is too long: name a channel of this app and environment"
        case .badExpirationDate: "a channel without storage accepts only the expiration 0"
        case .payloadTooLarge: "send less: a broadcast may have 5,120 bytes"
        case .topicDisallowed:
            "the key may not send pushes to the bundle id: check bundleId, teamId and keyId of the app"
        case .badTopic: "the topic is invalid: check bundleId of the app"
        case .badCertificate, .badCertificateEnvironment, .topicMismatch:
            "the key or certificate is not for this app and environment"
        case .forbidden, .invalidProviderToken, .missingProviderToken, .unrelatedKeyIdInToken,
            .badEnvironmentKeyIdInToken:
            "check teamId, keyId and keyFile of the app"
        case .expiredProviderToken: "check the clock of this machine"
        case .tooManyRequests: "APNs limits requests: try again later"
        case .tooManyProviderTokenUpdates:
            "other programs sign provider tokens for the same team: let them share one token, or wait 20 minutes"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .shutdown:
            "APNs cannot process requests now: try again later"
        case .duplicateHeaders, .invalidPushType, .missingTopic, .missingChannelId, .missingPushType, .badCollapseId,
            .badPath, .methodNotAllowed:
            """
            APNs does not accept a request of this form: connect without a proxy that changes requests; otherwise \
            report it as a defect of Causeway
            """
        case .badMessageId, .badPriority, .payloadEmpty, .badRequestParams, .badRequestPayload:
            "APNs does not accept a request of this form: report it as a defect of Causeway"
        // Nobody knows what helps against an absent or unknown reason. The other reasons of this case are only for
        // pushes to device tokens, so a broadcast or a request about channels never gets them.
        case .absent, .unknown, .badDeviceToken, .deviceTokenNotForTopic, .missingDeviceToken, .expiredToken,
            .unregistered:
            ""
        }
    }
}
