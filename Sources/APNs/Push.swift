import Numbers

/// One push, borrowed for the call to ``Pool/submit(_:)``.
///
/// The call copies every field except ``body``. The body's bytes must stay valid and unchanged until the push
/// has its response, because the connection may send a part of them later, when flow control allows it.
public struct PushRequest: ~Copyable {
    /// A number that the caller chooses to identify the push. ``PushResponse/tag`` repeats it.
    public var tag: UInt64
    /// The address of the push. For a device: an update token or a push-to-start token in lower-case hexadecimal, an
    /// even number of 2 to ``deviceTokenBytesMax`` bytes. For a broadcast: the channel's id.
    public var address: UnsafeRawBufferPointer
    /// Whether ``address`` is a channel. APNs then sends the push to all subscribers of the channel.
    public var isBroadcast: Bool
    /// `apns-priority`: 5 or 10, the two that Apple allows for Live Activities.
    public var priority: UInt8
    /// `apns-expiration` in UNIX seconds, 0 or later. The connection always sends it, because APNs keeps a
    /// push without it for up to 30 days. For a channel without storage, APNs accepts only 0.
    public var expiration: Int64
    /// The first and the last eight bytes, big-endian, of a UUID. The connection sends the UUID as `apns-id`,
    /// or as `apns-request-id` of a broadcast.
    public var identifier: (UInt64, UInt64)
    /// The JSON payload. APNs refuses more than 4,096 bytes with 413 (a broadcast: more than 5,120), so the
    /// caller must check the size.
    public var body: UnsafeRawBufferPointer
    /// The connection to avoid: the ``PushResponse/connection`` of the earlier attempt. The pool prefers another
    /// connection with room. 0: there is none to avoid.
    public var avoidedConnection: UInt32
    /// Whether an earlier attempt of the push was submitted. Such a push uses the ``RetryBudget``.
    public var isRetry: Bool

    /// The longest device token that is accepted, in hexadecimal digits. Live Activities have had tokens of
    /// 160 digits.
    public static let deviceTokenBytesMax = 200
    /// The longest channel id accepted, in bytes.
    public static let channelBytesMax = 64

    public init(
        tag: UInt64,
        address: UnsafeRawBufferPointer,
        isBroadcast: Bool = false,
        priority: UInt8,
        expiration: Int64,
        identifier: (UInt64, UInt64),
        body: UnsafeRawBufferPointer,
        avoidedConnection: UInt32 = 0,
        isRetry: Bool = false
    ) {
        self.tag = tag
        self.address = address
        self.isBroadcast = isBroadcast
        self.priority = priority
        self.expiration = expiration
        self.identifier = identifier
        self.body = body
        self.avoidedConnection = avoidedConnection
        self.isRetry = isRetry
    }

    /// Whether the bytes have the form of a device token. Only such bytes may be put into `:path`.
    public static func isDeviceToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 2, bytes.count <= deviceTokenBytesMax, bytes.count.isMultiple(of: 2) else { return false }
        return Hexadecimal.isLowerCase(bytes)
    }

    /// Whether the bytes have the form of a channel id (base64 text). Only such bytes may be put into
    /// `apns-channel-id`. Whether the channel exists, only APNs knows.
    public static func isChannel(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= channelBytesMax else { return false }
        return bytes.allSatisfy { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
                || byte == UInt8(ascii: "=")
        }
    }

    /// Whether the address, the priority and the expiration have an allowed form. The pool never sends a push that is
    /// not well-formed.
    var isWellFormed: Bool {
        guard priority == 5 || priority == 10, expiration >= 0 else { return false }
        return isBroadcast ? PushRequest.isChannel(address) : PushRequest.isDeviceToken(address)
    }
}

/// The outcome of one push. Valid only during ``PushHandler/pushAnswered(_:)``.
public struct PushResponse: ~Copyable {
    /// How far the push came.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// APNs answered with a final status.
        case answered
        /// APNs did not process the push, so sending it again cannot deliver it twice. APNs refused its
        /// stream, the stream is above a GOAWAY's last stream, or the body was not sent completely. Or APNs refused the
        /// new key that the connection tried.
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
    public var kind: Kind
    /// The HTTP status; 0 unless `answered`.
    public var status: UInt16
    public var reason: Reason
    /// The text of the reason as APNs wrote it, with its JSON escapes; empty if there is none.
    public var reasonText: UnsafeRawBufferPointer
    /// The `timestamp` of a 410, UNIX milliseconds: when APNs learned that the token is dead. -1 if the
    /// response has none.
    public var timestampMilliseconds: Int64
    /// The wall clock of the turn in which the connection took the push's last byte, UNIX milliseconds; -1 if
    /// the push was not sent completely.
    public var sentAtMilliseconds: Int64
    /// The wall clock of the turn in which the push got this response, UNIX milliseconds.
    public var answeredAtMilliseconds: Int64
    /// The connection that carried the push, for ``PushRequest/avoidedConnection``; 0 if no connection
    /// carried it.
    public var connection: UInt32
    public var disposition: ResponseDisposition

    /// Whether the response shows that APNs has checked the provider token and accepted it. An overloaded
    /// server may answer 429 or 5xx before it checks the token.
    public var acceptsProviderToken: Bool {
        switch disposition {
        case .accepted, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone: true
        case .rejected: status / 100 == 4 && status != 403 && status != 429
        case .retryNow, .retryLater, .rateLimited, .refreshProviderToken, .providerRefused, .ambiguous: false
        }
    }
}

/// Receives a pool's events, on the loop's thread.
public protocol PushHandler: AnyObject {
    /// A push got its response. The pool makes this call exactly once for each push that ``Pool/submit(_:)``
    /// took, never from inside `submit`. The handler may submit new pushes here.
    func pushAnswered(_ response: borrowing PushResponse)
    /// The pool can take a push again, after ``Pool/submit(_:)`` returned false.
    func poolHasRoom(_ pool: Pool)
    /// The pool or a connection reports an event, for logs and metrics. Events are rare.
    func poolReported(_ event: PoolEvent)
}
