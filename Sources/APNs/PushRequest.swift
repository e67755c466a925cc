import Numbers

/// One push, borrowed for the call to ``Pool/submit(_:)``.
///
/// The call copies every field except ``body``. The body's bytes must stay valid and unchanged until the push has its
/// response: flow control may make the connection send a part of them later.
public struct PushRequest: ~Copyable {
    /// A number that the caller chooses to identify the push. ``PushResponse/tag`` repeats it.
    public var tag: UInt64
    /// The address of the push. For a device: an update token or a push-to-start token in lower-case hexadecimal, an
    /// even number of 2 to ``deviceTokenBytesMax`` bytes. For a broadcast: the channel's id.
    public var address: UnsafeRawBufferPointer
    /// Whether ``address`` is a channel. APNs then sends the push to all subscribers of the channel.
    public var isBroadcast: Bool
    /// `apns-priority`: 5 or 10, the two values that Apple allows for Live Activities.
    public var priority: UInt8
    /// `apns-expiration` in UNIX seconds, 0 or later. The connection always sends this header, because APNs keeps a
    /// push without it for up to 30 days. For a channel without storage, APNs accepts only 0.
    public var expirationSeconds: Int64
    /// The push's UUID, as two big-endian numbers of eight bytes each. The connection sends it as `apns-id`, or as
    /// `apns-request-id` of a broadcast.
    public var identifier: (UInt64, UInt64)
    /// The JSON payload. APNs refuses more than 4,096 bytes with 413 (a broadcast: more than 5,120), so the
    /// caller must check the size.
    public var body: UnsafeRawBufferPointer
    /// The number of the connection that the pool avoids if another connection has room; nil for none. For a retry:
    /// the connection of the earlier attempt (``PushResponse/connectionNumber``).
    public var avoidedConnectionNumber: UInt32?
    /// Whether an earlier attempt of the push was submitted. The push then takes a retry from the ``RetryBudget``.
    public var isRetry: Bool

    /// The longest device token that is accepted, in hexadecimal digits. Live Activities have had tokens of 160 digits.
    public static let deviceTokenBytesMax = 200
    /// The longest channel id that is accepted, in bytes. This limits the size of a broadcast's header block (R4).
    public static let channelIdentifierBytesMax = 64

    public init(
        tag: UInt64,
        address: UnsafeRawBufferPointer,
        isBroadcast: Bool = false,
        priority: UInt8,
        expirationSeconds: Int64,
        identifier: (UInt64, UInt64),
        body: UnsafeRawBufferPointer,
        avoidedConnectionNumber: UInt32? = nil,
        isRetry: Bool = false
    ) {
        self.tag = tag
        self.address = address
        self.isBroadcast = isBroadcast
        self.priority = priority
        self.expirationSeconds = expirationSeconds
        self.identifier = identifier
        self.body = body
        self.avoidedConnectionNumber = avoidedConnectionNumber
        self.isRetry = isRetry
    }

    /// Whether the bytes have the form of a device token. Only such bytes may be put into `:path`.
    public static func isDeviceToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 2, bytes.count <= deviceTokenBytesMax, bytes.count.isMultiple(of: 2) else { return false }
        return Hexadecimal.areLowerCaseDigits(bytes)
    }

    /// Whether the bytes have the form of a channel id: base64 text. Other bytes must not be put into
    /// `apns-channel-id`. Only APNs knows whether the channel exists.
    public static func isChannelIdentifier(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= channelIdentifierBytesMax else { return false }
        return bytes.allSatisfy { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
                || byte == UInt8(ascii: "=")
        }
    }

    /// Whether the address, the priority and the expiration have an allowed form. The pool never sends a push that is
    /// not well-formed.
    var isWellFormed: Bool {
        guard priority == 5 || priority == 10, expirationSeconds >= 0 else { return false }
        return isBroadcast ? PushRequest.isChannelIdentifier(address) : PushRequest.isDeviceToken(address)
    }
}
