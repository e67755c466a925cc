import Numbers

/// One push, borrowed for the call to ``Pool/submit(_:)``.
///
/// Every field is copied by the call except ``body``, whose bytes must stay where they are until the push has been
/// answered: they are read when flow control lets them go out.
public struct PushRequest: ~Copyable {
    /// The caller's own name for the push; comes back in ``PushAnswer/tag``.
    public var tag: UInt64
    /// Of a push to a device its token in lower-case hexadecimal, 2 to ``deviceTokenBytesMax`` bytes, an even number; of a broadcast the
    /// channel's id.
    public var address: UnsafeRawBufferPointer
    /// Whether ``address`` is a channel's: the push goes to all who subscribe to it.
    public var isBroadcast: Bool
    /// `apns-priority`: 5 or 10, the two that Apple allows for Live Activities.
    public var priority: UInt8
    /// `apns-expiration` in UNIX seconds, 0 or later. Always sent: left out, APNs would keep the push up to 30 days. On a channel without
    /// storage APNs takes nothing but 0.
    public var expiration: Int64
    /// `apns-id`, of a broadcast `apns-request-id`: the UUID's first and last eight bytes, big-endian.
    public var identifier: (UInt64, UInt64)
    /// The JSON payload. APNs refuses more than 4,096 bytes, of a broadcast 5,120, with 413; that is the caller's to check.
    public var body: UnsafeRawBufferPointer
    /// The ``PushAnswer/connection`` that must not carry this push, for a retry elsewhere; 0 for any.
    public var avoidedConnection: UInt32
    /// Whether the push has been sent before, so that it counts against the ``RetryBudget``.
    public var isRetry: Bool

    /// The longest device token taken, in hexadecimal digits. Tokens of Live Activities have been seen with 160.
    public static let deviceTokenBytesMax = 200
    /// The longest id of a channel taken, in bytes.
    public static let channelBytesMax = 64

    /// A push to one device.
    public init(
        tag: UInt64,
        deviceToken: UnsafeRawBufferPointer,
        priority: UInt8,
        expiration: Int64,
        identifier: (UInt64, UInt64),
        body: UnsafeRawBufferPointer,
        avoidedConnection: UInt32 = 0,
        isRetry: Bool = false
    ) {
        self.tag = tag
        address = deviceToken
        isBroadcast = false
        self.priority = priority
        self.expiration = expiration
        self.identifier = identifier
        self.body = body
        self.avoidedConnection = avoidedConnection
        self.isRetry = isRetry
    }

    /// A broadcast to all who subscribe to a channel of the app.
    public init(
        tag: UInt64,
        channel: UnsafeRawBufferPointer,
        priority: UInt8,
        expiration: Int64,
        identifier: (UInt64, UInt64),
        body: UnsafeRawBufferPointer,
        avoidedConnection: UInt32 = 0,
        isRetry: Bool = false
    ) {
        self.tag = tag
        address = channel
        isBroadcast = true
        self.priority = priority
        self.expiration = expiration
        self.identifier = identifier
        self.body = body
        self.avoidedConnection = avoidedConnection
        self.isRetry = isRetry
    }

    /// Whether the bytes can stand in `:path` as a device token.
    public static func isDeviceToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 2, bytes.count <= deviceTokenBytesMax, bytes.count.isMultiple(of: 2) else { return false }
        return Hexadecimal.isLowerCase(bytes)
    }

    /// Whether the bytes can stand in `apns-channel-id`: they are base64 text. Whether the channel exists, APNs knows.
    public static func isChannel(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= channelBytesMax else { return false }
        return bytes.allSatisfy { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
                || byte == UInt8(ascii: "=")
        }
    }

    /// Whether the fields are ones that APNs could accept; a push that is not well-formed is never sent.
    var isWellFormed: Bool {
        guard priority == 5 || priority == 10, expiration >= 0 else { return false }
        return isBroadcast ? PushRequest.isChannel(address) : PushRequest.isDeviceToken(address)
    }
}

/// What one push came to. Valid during ``PushHandler/pushAnswered(_:)`` only.
public struct PushAnswer: ~Copyable {
    /// How far the push came.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// APNs gave a final status.
        case answered
        /// APNs never processed it, so that sending it again cannot repeat it: refused stream, stream above a GOAWAY's
        /// last one, or not completely sent when its connection or its time ended.
        case notProcessed
        /// Completely sent, but no status came: deadline, reset, lost connection, GOAWAY at or above its stream.
        case ambiguous
        /// Never sent: its address is no token or channel, or its priority or expiration is out of range.
        case malformed
    }

    /// ``PushRequest/tag``.
    public var tag: UInt64
    public var kind: Kind
    /// The HTTP status; 0 unless `answered`.
    public var status: UInt16
    public var reason: Reason
    /// The reason as APNs wrote it, without unescaping; empty if it wrote none.
    public var reasonText: UnsafeRawBufferPointer
    /// The `timestamp` of a 410: when APNs learned that the token is dead, UNIX milliseconds; -1 if not given.
    public var timestampMilliseconds: Int64
    /// `Retry-After` in seconds, at most a day; -1 if not given. APNs does not document it.
    public var retryAfterSeconds: Int32
    /// Wall clock of the turn in which its last byte was handed to the connection; -1 if it was not.
    public var sentAtMilliseconds: Int64
    /// Wall clock of the turn in which it came to this answer.
    public var answeredAtMilliseconds: Int64
    /// The connection that carried it, for ``PushRequest/avoidedConnection``; 0 if none did.
    public var connection: UInt32
    public var disposition: Disposition
}

/// What a pool tells its owner, on the loop's thread.
public protocol PushHandler: AnyObject {
    /// A push came to its answer; called exactly once for each push that ``Pool/submit(_:)`` took, never from inside it.
    /// New pushes may be submitted from here.
    func pushAnswered(_ answer: borrowing PushAnswer)
    /// There is a free stream again after ``Pool/submit(_:)`` returned false.
    func poolHasRoom(_ pool: Pool)
    /// Something for logs and metrics. Cold.
    func poolNotice(_ notice: PoolNotice)
}
