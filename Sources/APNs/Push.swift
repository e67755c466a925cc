import Numbers

/// One push, borrowed for the call to ``Pool/submit(_:)``.
///
/// The call copies every field except ``body``. The body's bytes must stay in place until the push has its
/// response: they are read when flow control allows them to be sent.
public struct PushRequest: ~Copyable {
    /// A number that the caller chooses to identify the push. ``PushResponse/tag`` repeats it.
    public var tag: UInt64
    /// The address. For a device: its token in lower-case hexadecimal, an even number of 2 to
    /// ``deviceTokenBytesMax`` bytes. For a broadcast: the channel's id.
    public var address: UnsafeRawBufferPointer
    /// Whether ``address`` is a channel: the push goes to all its subscribers.
    public var isBroadcast: Bool
    /// `apns-priority`: 5 or 10, the two that Apple allows for Live Activities.
    public var priority: UInt8
    /// `apns-expiration` in UNIX seconds, 0 or later. Always sent, since APNs keeps a push without it for up
    /// to 30 days. For a channel without storage APNs accepts only 0.
    public var expiration: Int64
    /// The UUID for `apns-id`, or `apns-request-id` of a broadcast: its first and last eight bytes,
    /// big-endian.
    public var identifier: (UInt64, UInt64)
    /// The JSON payload. APNs refuses more than 4,096 bytes (a broadcast: 5,120) with 413; the caller must
    /// check the size.
    public var body: UnsafeRawBufferPointer
    /// The ``PushResponse/connection`` to avoid, so that a retry uses another connection if one has room; 0
    /// for none.
    public var avoidedConnection: UInt32
    /// Whether the push was sent before, so that it counts against the ``RetryBudget``.
    public var isRetry: Bool

    /// The longest device token accepted, in hexadecimal digits. Tokens of Live Activities with 160 digits
    /// have been seen.
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

    /// Whether the bytes have the form of a device token, so that they may be put into `:path`.
    public static func isDeviceToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 2, bytes.count <= deviceTokenBytesMax, bytes.count.isMultiple(of: 2) else { return false }
        return Hexadecimal.isLowerCase(bytes)
    }

    /// Whether the bytes have the form of a channel id (base64 text), so that they may be put into
    /// `apns-channel-id`. Only APNs knows whether the channel exists.
    public static func isChannel(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= channelBytesMax else { return false }
        return bytes.allSatisfy { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
                || byte == UInt8(ascii: "=")
        }
    }

    /// Whether APNs could accept the fields. A push that is not well-formed is never sent.
    var isWellFormed: Bool {
        guard priority == 5 || priority == 10, expiration >= 0 else { return false }
        return isBroadcast ? PushRequest.isChannel(address) : PushRequest.isDeviceToken(address)
    }
}

/// The outcome of one push. Valid only during ``PushHandler/pushAnswered(_:)``.
public struct PushResponse: ~Copyable {
    /// How far the push got.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// APNs gave a final status.
        case answered
        /// APNs never processed the push, so sending it again cannot repeat it. Its stream was refused or is
        /// above a GOAWAY's last stream, or its body was not sent completely.
        case notProcessed
        /// The push was sent completely, but no status came: deadline, reset, lost connection, or a GOAWAY
        /// that covers its stream.
        case ambiguous
        /// The push was never sent. Its address does not have the form of a token or channel, or its priority
        /// or expiration is out of range.
        case malformed
    }

    /// The push's ``PushRequest/tag``.
    public var tag: UInt64
    public var kind: Kind
    /// The HTTP status; 0 unless `answered`.
    public var status: UInt16
    public var reason: Reason
    /// The reason's text as APNs wrote it, not unescaped; empty if there is none.
    public var reasonText: UnsafeRawBufferPointer
    /// The `timestamp` of a 410, UNIX milliseconds: when APNs learned that the token is dead. -1 if not
    /// given.
    public var timestampMilliseconds: Int64
    /// `Retry-After` in seconds, at most a day; -1 if not given. APNs does not document it.
    public var retryAfterSeconds: Int32
    /// Wall clock of the turn in which the push's last byte was handed to the connection; -1 if the push was
    /// not sent completely.
    public var sentAtMilliseconds: Int64
    /// Wall clock of the turn in which the push got this response.
    public var answeredAtMilliseconds: Int64
    /// The connection that carried the push, for ``PushRequest/avoidedConnection``; 0 if none did.
    public var connection: UInt32
    public var disposition: Disposition

    /// Whether the response shows that APNs has checked the provider token and accepted it. An overloaded
    /// server may answer 429 or 5xx before it checks the token.
    public var acceptsProviderToken: Bool {
        switch disposition {
        case .accepted, .tokenDead, .tokenSuspect, .topicSuspect, .channelGone: true
        case .rejected: status / 100 == 4 && status != 403 && status != 429
        case .retryNow, .retryLater, .limited, .refreshProviderToken, .providerRefused, .ambiguous: false
        }
    }
}

/// Receives a pool's events, on the loop's thread.
public protocol PushHandler: AnyObject {
    /// A push got its response. Called exactly once for each push that ``Pool/submit(_:)`` took, never from
    /// inside `submit`. The handler may submit new pushes here.
    func pushAnswered(_ response: borrowing PushResponse)
    /// A stream is free again after ``Pool/submit(_:)`` returned false.
    func poolHasRoom(_ pool: Pool)
    /// An event for logs and metrics. Rare.
    func poolNotice(_ notice: PoolEvent)
}
