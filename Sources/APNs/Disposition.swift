/// What the sender of a push should do now that it has come to its answer.
public enum Disposition: UInt8, Sendable, CaseIterable {
    /// APNs took the push (2xx). It promises no more than that.
    case accepted
    /// APNs never processed the push, or asks for another connection: send it again at once, on another connection.
    case retryNow
    /// APNs cannot take it now (5xx, or too many provider tokens): later, and then the newest state instead of this payload.
    case retryLater
    /// APNs limits this device token or channel (429): later, and what it shows less often.
    case limited
    /// The provider token was refused. The pool gets a new one and a new connection by itself; send again.
    case refreshProviderToken
    /// APNs refuses who sends, whatever is sent (403): a wrong key, team or certificate. Later, since the key may be replaced.
    case providerRefused
    /// The device token is dead (410); retire it unless it was registered after the answer's timestamp.
    case tokenDead
    /// The device token is not one (`BadDeviceToken`), or the environment is wrong: retire it only while the breaker stays closed.
    case tokenSuspect
    /// The device token is for another topic: usually a wrong configuration, so the token is kept.
    case topicSuspect
    /// There is no such channel: somebody has deleted it, or the environment is another one's. A new channel takes its place.
    case channelGone
    /// APNs refuses this push for a reason that no retry removes.
    case rejected
    /// The push was sent and its answer was lost; it may have been accepted.
    case ambiguous

    /// Whether the same request may succeed later, although nobody changes anything.
    public var retryHelps: Bool {
        switch self {
        case .retryNow, .retryLater, .limited, .refreshProviderToken, .ambiguous: true
        case .accepted, .providerRefused, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone, .rejected: false
        }
    }

    /// The one total function from what is known of an answer to what is done about it.
    ///
    /// A known reason decides when it comes with the status class in which Apple documents it; otherwise, and for every
    /// unknown reason, the status decides.
    public init(kind: PushAnswer.Kind, status: UInt16, reason: Reason) {
        switch kind {
        case .malformed: self = .rejected
        case .notProcessed: self = .retryNow
        case .ambiguous: self = .ambiguous
        case .answered:
            if status / 100 == 2 {
                self = .accepted
            } else if status / 100 == reason.documentedStatus / 100, let known = Disposition(known: reason) {
                self = known
            } else {
                self = Disposition(refusal: status)
            }
        }
    }

    /// What the answer to a broadcast means: it has no device token that could be dead or suspect.
    var ofBroadcast: Disposition {
        switch self {
        case .tokenDead, .tokenSuspect, .topicSuspect: .rejected
        default: self
        }
    }

    /// By reason: the "Resend?", "Device token" and "Provider token" columns of the reference's table.
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
            self = .retryNow
        case .expiredProviderToken, .unrelatedKeyIdInToken:
            self = .refreshProviderToken
        case .tooManyRequests:
            self = .limited
        case .tooManyProviderTokenUpdates, .internalServerError, .serviceUnavailable:
            self = .retryLater
        case .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders,
            .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed, .badPath,
            .methodNotAllowed, .payloadTooLarge, .featureNotEnabled, .missingChannelId, .badRequestParams,
            .badRequestPayload, .missingPushType, .cannotCreateChannelConfig:
            self = .rejected
        case .badCertificate, .badCertificateEnvironment, .topicMismatch, .forbidden, .invalidProviderToken,
            .missingProviderToken, .badEnvironmentKeyIdInToken:
            self = .providerRefused
        }
    }

    /// By status alone. A 410 without its reason still says that the token is no longer active, a 403 that it is about the provider.
    private init(refusal status: UInt16) {
        switch status {
        case 403: self = .providerRefused
        case 410: self = .tokenDead
        case 429: self = .limited
        case 500...599: self = .retryLater
        default: self = .rejected
        }
    }
}
