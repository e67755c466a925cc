/// How one attempt to send a push ended.
public struct PushResult {
    /// What APNs' response means for the push. The core imports no shell, so it repeats the cases of
    /// `APNs.ResponseDisposition` that it needs.
    public enum Disposition: UInt8, Sendable {
        case accepted
        /// APNs did not process the push, or asks for another connection or provider token. The push is sent again
        /// soon: after a short pause (`DeliveryConfiguration.retryBaseMilliseconds`), or at once if it is a member's
        /// push in a round.
        ///
        /// Any of these pushes waits as long as after `retryLater` instead:
        /// - a broadcast
        /// - a push to a member that has just joined an audience
        /// - a member's push in a round, from its third failure in a row on
        /// - a push to an activity, from the activity's eleventh failure in a row on
        case retrySoon
        /// APNs itself fails, or refuses everything that this provider sends. The push is sent again later.
        case retryLater
        /// APNs limits this token or channel, and asks for fewer pushes to it. The push is sent again later.
        case throttled
        /// APNs says that the token is dead.
        case tokenDead
        /// APNs does not know the token, or Causeway uses the wrong environment. The token is retired only if
        /// `isTokenRefusalTrusted`: then the environment is right.
        case tokenSuspect
        /// The token belongs to another topic (bundle id), or Causeway uses the wrong topic. The token is not retired.
        case topicSuspect
        /// A broadcast's channel does not exist in this environment.
        case channelGone
        /// APNs refused this push permanently, for a reason that does not concern its token. Or the push is malformed,
        /// and the pool did not send it. The token is kept.
        case rejected
        /// The push was sent and no response came, so a phone may have it.
        case ambiguous

        /// Whether the response shows that APNs works, because it decides about this push or its token. False for
        /// `topicSuspect`: the topic may be wrong for all pushes of the app.
        package var showsThatAPNsWorks: Bool {
            switch self {
            case .accepted, .throttled, .tokenDead, .tokenSuspect, .channelGone, .rejected: true
            case .retrySoon, .retryLater, .topicSuspect, .ambiguous: false
            }
        }
    }

    public var disposition: Disposition
    /// HTTP status; 0 without a response.
    public var status: UInt16
    /// APNs' reason; the core keeps at most 64 bytes. If it is empty, the record gets a reason of Causeway.
    public var reason: UnsafeRawBufferPointer
    /// What an operator should do about the reason; empty: nothing.
    public var advice: StaticString
    /// From when on the token is dead, as APNs says in a 410, UNIX milliseconds; nil: APNs names no time.
    public var invalidAtWallMilliseconds: Int64?
    /// When the push was sent, UNIX milliseconds; nil if it was not sent completely.
    public var sentAtWallMilliseconds: Int64?
    /// When the response came, or when the attempt ended without one, UNIX milliseconds.
    public var responseAtWallMilliseconds: Int64
    /// The number of the pool's connection that sent the push; nil: none. A retry avoids that connection.
    public var connectionNumber: UInt32?
    /// Whether the pool may retry a push now (`RetryPermission`).
    public var isRetryPermitted: Bool
    /// Whether a refusal shows that the push's token is wrong, and not the configuration of its app. True if the pool's
    /// circuit breaker is closed, and APNs has accepted a push of the pool to a device since the pool's last
    /// BadDeviceToken or DeviceTokenNotForTopic before this result.
    public var isTokenRefusalTrusted: Bool

    public init(
        disposition: Disposition,
        status: UInt16,
        reason: UnsafeRawBufferPointer,
        advice: StaticString = "",
        invalidAtWallMilliseconds: Int64?,
        sentAtWallMilliseconds: Int64?,
        responseAtWallMilliseconds: Int64,
        connectionNumber: UInt32? = nil,
        isRetryPermitted: Bool = true,
        isTokenRefusalTrusted: Bool = true
    ) {
        self.isTokenRefusalTrusted = isTokenRefusalTrusted
        self.connectionNumber = connectionNumber
        self.isRetryPermitted = isRetryPermitted
        self.disposition = disposition
        self.status = status
        self.reason = reason
        self.advice = advice
        self.invalidAtWallMilliseconds = invalidAtWallMilliseconds
        self.sentAtWallMilliseconds = sentAtWallMilliseconds
        self.responseAtWallMilliseconds = responseAtWallMilliseconds
    }
}
