/// What the sender of a push must do after the response (R18).
public enum ResponseDisposition: UInt8, Sendable, CaseIterable {
    /// APNs accepted the push (2xx). The phone may still not show it.
    case accepted
    /// APNs did not process the push, or asks for another connection. Send the push again soon, on another connection.
    case retrySoon
    /// APNs cannot take the push now (5xx except 503 Shutdown, or TooManyProviderTokenUpdates). Later, send the state
    /// that is then the newest.
    case retryLater
    /// APNs limits this device token or channel (429). Later, send the state that is then the newest, and send less
    /// often.
    case throttled
    /// APNs responded with ExpiredProviderToken or UnrelatedKeyIdInToken. Send the push again. The pool replaces the
    /// connection, and also the token, except if the token is 0 to 20 minutes old.
    case refreshProviderToken
    /// APNs refuses the sender, not this push. Retry later, because an operator may correct the fault. One of these is
    /// wrong:
    /// - The key, its team, its environment or a certificate (403).
    /// - Something that every push of the pool has in common, such as the topic (`TopicDisallowed`, `BadTopic`).
    /// - If the response has no reason, probably the way to APNs: a proxy responded in APNs' place.
    case providerRefused
    /// The device token is dead (410). Retire the token, unless it was registered after the response's timestamp.
    case tokenDead
    /// The device token is invalid (`BadDeviceToken`), or the environment is wrong. Retire the token only if
    /// ``Pool/trustsTokenRefusals`` is true.
    case tokenSuspect
    /// The device token belongs to another topic. Usually the configuration is wrong, so do not retire the
    /// token.
    case topicSuspect
    /// The channel does not exist: it was deleted, it belongs to the other environment, or APNs calls its id invalid.
    /// The sender needs a new channel.
    case channelGone
    /// APNs refuses a value of this push, such as its priority, or the push is malformed. No retry would help.
    case rejected
    /// The push was sent, and no valid response came. APNs may have accepted the push.
    case ambiguous

    /// Whether the same request may succeed later without a change by an operator.
    public var retryHelps: Bool {
        switch self {
        case .retrySoon, .retryLater, .throttled, .refreshProviderToken, .ambiguous: true
        case .accepted, .providerRefused, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: false
        }
    }

    /// Returns the disposition of a push that has ended. If APNs responded, the status and the reason decide:
    /// - A status 2xx means `accepted`.
    /// - If the status has the class (4xx or 5xx) that Apple documents for the reason, the reason decides.
    /// - Otherwise the status decides.
    ///
    /// If APNs did not respond, the completion decides.
    public init(completion: PushResponse.Completion, status: UInt16, reason: Reason) {
        switch completion {
        case .malformed: self = .rejected
        case .notProcessed: self = .retrySoon
        case .ambiguous: self = .ambiguous
        case .responded:
            if status / 100 == 2 {
                self = .accepted
            } else if status / 100 == reason.documentedStatus / 100, let known = ResponseDisposition(known: reason) {
                self = known
            } else {
                self = ResponseDisposition(refusal: status, reason)
            }
        }
    }

    /// The disposition for a broadcast. A broadcast has no device token, so a response about a device token means only
    /// that APNs rejects the push.
    var forBroadcast: ResponseDisposition {
        switch self {
        case .tokenDead, .tokenSuspect, .topicSuspect: .rejected
        case .accepted, .retrySoon, .retryLater, .throttled, .refreshProviderToken, .providerRefused, .channelGone,
            .rejected, .ambiguous:
            self
        }
    }

    /// Decides by the reason, as Apple documents it; nil if the reason is absent or unknown.
    private init?(known reason: Reason) {
        switch reason {
        case .absent, .unknown:
            return nil
        case .expiredToken, .unregistered:
            self = .tokenDead
        case .badDeviceToken:
            self = .tokenSuspect
        case .deviceTokenNotForTopic:
            self = .topicSuspect
        case .channelNotRegistered, .badChannelId:
            self = .channelGone
        case .idleTimeout, .shutdown:
            self = .retrySoon
        case .expiredProviderToken, .unrelatedKeyIdInToken:
            self = .refreshProviderToken
        case .tooManyRequests:
            self = .throttled
        case .tooManyProviderTokenUpdates, .internalServerError, .serviceUnavailable:
            self = .retryLater
        case .badExpirationDate, .badMessageId, .badPriority, .payloadEmpty, .payloadTooLarge, .badRequestParams,
            .badRequestPayload, .cannotCreateChannelConfig:
            self = .rejected
        // If somebody turns off the app's Broadcast Capability, APNs deletes all channels of the app. So a later
        // broadcast to this channel cannot succeed.
        case .featureNotEnabled:
            self = .rejected
        case .badCertificate, .badCertificateEnvironment, .topicMismatch, .forbidden, .invalidProviderToken,
            .missingProviderToken, .badEnvironmentKeyIdInToken:
            self = .providerRefused
        // APNs would refuse every push of the pool, or every broadcast (`mayRefuseOnlyBroadcasts`): they all have the
        // same topic, form of path, method and set of header fields. Perhaps a proxy changes requests.
        case .badTopic, .missingTopic, .topicDisallowed, .badPath, .methodNotAllowed, .invalidPushType,
            .missingPushType, .duplicateHeaders, .badCollapseId, .missingDeviceToken, .missingChannelId:
            self = .providerRefused
        }
    }

    /// Decides by the status if the reason does not decide. Where the status alone does not decide either, an unknown
    /// reason shows that APNs refuses this push. Without a reason, the response is probably from a proxy, which would
    /// respond so to every push or every broadcast, because APNs gives a reason with each refusal.
    private init(refusal status: UInt16, _ reason: Reason) {
        switch status {
        case 403: self = .providerRefused
        case 410: self = .tokenDead
        case 413: self = .rejected
        case 429: self = .throttled
        case 500...599: self = .retryLater
        default: self = reason == .absent ? .providerRefused : .rejected
        }
    }
}
