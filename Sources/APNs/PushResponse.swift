/// The outcome of one push. Valid only during ``PushHandler/pushResponseReceived(_:)``.
public struct PushResponse: ~Copyable {
    /// Whether APNs responded to the push. If not: whether APNs may have processed the push.
    public enum Completion: UInt8, Sendable, CaseIterable {
        /// APNs responded with a final status.
        case responded
        /// APNs did not process the push, so sending it again cannot deliver it twice. The reason is one of these:
        /// - APNs refused the push's stream, or the stream is above the last one that a GOAWAY names.
        /// - The push was not sent completely: its body waited for flow control, or the connection ended before the
        ///   socket had taken the push's last byte.
        /// - APNs refused the new key that the connection tried.
        case notProcessed
        /// The push was sent completely, but no valid final status came before the deadline, a reset, or the end of the
        /// connection. APNs may have processed the push.
        case ambiguous
        /// The pool did not send the push. Its address does not have the form of a token or channel, or its
        /// priority or expiration is out of range.
        case malformed
    }

    /// The push's ``PushRequest/tag``.
    public var tag: UInt64
    public var completion: Completion
    /// The HTTP status; 0 unless `responded`.
    public var status: UInt16
    public var reason: Reason
    /// The text of the reason as APNs wrote it, with its JSON escapes; empty if there is none.
    public var reasonText: UnsafeRawBufferPointer
    /// When APNs learned that the token is dead: the `timestamp` of a 410, UNIX milliseconds. Nil if the response has
    /// none.
    public var invalidAtWallMilliseconds: Int64?
    /// When the push's last byte was written to the connection, UNIX milliseconds. Nil if the push was not sent
    /// completely.
    public var sentAtWallMilliseconds: Int64?
    /// When the push got this response, UNIX milliseconds.
    public var responseAtWallMilliseconds: Int64
    /// The number of the connection that carried the push; nil if none did. A retry can pass the number as
    /// ``PushRequest/avoidedConnectionNumber``.
    public var connectionNumber: UInt32?
    public var disposition: ResponseDisposition
    /// Whether the push was a broadcast; false if the push is malformed.
    public var isBroadcast = false

    /// Whether the response refuses a broadcast for a fault that pushes to devices may not have. A refusal without a
    /// reason is probably from a proxy, which may permit only the paths of devices: APNs gives a reason with each
    /// refusal.
    public var mayRefuseOnlyBroadcasts: Bool {
        guard isBroadcast, disposition == .providerRefused else { return false }
        switch reason {
        case .absent, .badPath, .methodNotAllowed, .invalidPushType, .missingPushType, .duplicateHeaders,
            .badCollapseId, .missingDeviceToken, .missingChannelId:
            return true
        default:
            return false
        }
    }

    /// Whether the response shows that APNs accepts the provider token. Besides a refusal of the token and a missing
    /// response, these do not show it:
    /// - A 429 or 5xx: an overloaded server may respond before it checks the token.
    /// - A refusal of the topic: a key that may not send to the topic cannot be used.
    /// - A refusal of the request's form: perhaps a proxy responded, which checks no token.
    public var showsAcceptedProviderToken: Bool {
        switch disposition {
        case .accepted, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone: true
        case .rejected: status / 100 == 4 && status != 403 && status != 429
        case .retrySoon, .retryLater, .throttled, .refreshProviderToken, .providerRefused, .ambiguous: false
        }
    }
}

/// Receives a pool's events, on the loop's thread.
public protocol PushHandler: AnyObject {
    /// A push got its response. The pool makes this call exactly once for each push that ``Pool/submit(_:)``
    /// took, never from inside `submit`. The handler may submit new pushes here.
    func pushResponseReceived(_ response: borrowing PushResponse)
    /// The pool can take a push again, after ``Pool/submit(_:)`` returned false.
    func poolHasRoom(_ pool: Pool)
    /// The pool or a connection reports an event, for logs and metrics. Events are rare.
    func poolReported(_ event: PoolEvent)
}
