/// The record of a command that Causeway writes from the command's parts, for example to hold, defer or fan out the
/// command. Texts are plain bytes without escapes, which must stay valid until ``write(to:)`` has returned.
///
/// Decoding the written record gives the same command, with the same digest and body. If the command carries an older
/// command's alert, the caller has put this alert into ``aps``.
public struct CommandRecord {
    public var app: UnsafeRawBufferPointer
    /// The activity's id, or the template in a start to an audience. Nil for a command to a channel, and for an update
    /// or end to an audience.
    public var activity: UnsafeRawBufferPointer?
    public var audience: UnsafeRawBufferPointer?
    /// The channel that the command is broadcast to, instead of an activity or an audience.
    public var channel: (identifier: UnsafeRawBufferPointer, environment: APNsEnvironment)?
    /// Whether a command to an audience asks for a broadcast channel.
    public var requestsChannel = false
    public var device: UnsafeRawBufferPointer?
    /// Apple's dictionary, byte for byte as it will be written, including its braces.
    ///
    /// Exception: if ``address`` is set, the dictionary lacks `input-push-token` and the closing brace
    /// (``StartedActivityAddress/copyWithoutAddress(_:into:)``). ``write(to:)`` then adds the address and the brace.
    public var aps: UnsafeRawBufferPointer
    /// The custom keys without braces, as in ``Command/payloadMembers``.
    public var payloadMembers: UnsafeRawBufferPointer?
    /// The command's `id`. If the producer gave none: the place of the producer's record, `topic/partition/offset`, so
    /// that results name that record; nil if this text is longer than ``Limits/commandIdentifierBytesMax``.
    public var identifier: UnsafeRawBufferPointer?
    public var sequence: UInt64 = 0
    /// The priority that the command asks for: 5 or 10; 0 if the command asks for none.
    public var priority: UInt8 = 0
    /// The policy that the command names.
    public var policy: UnsafeRawBufferPointer?
    /// The command's own expiration, UNIX seconds; -1 if it has none.
    public var expirationSeconds: Int64 = -1
    /// The version of the older command whose alert this command carries; nil if the command has its own alert or none.
    /// If the alert was taken from a held record of this same command, this is the command's own version.
    public var carriedAlertVersion: Version?
    /// How updates reach the activity that this start begins: ``write(to:)`` adds this to ``aps``. Nil if ``aps`` is
    /// written as it is.
    public var address: StartedActivityAddress?
    /// The token that came with the command. A held command has no token, because another token may be valid when the
    /// command is sent.
    public var token: (digits: UnsafeRawBufferPointer, environment: APNsEnvironment)?

    public init(app: UnsafeRawBufferPointer, activity: UnsafeRawBufferPointer, aps: UnsafeRawBufferPointer) {
        self.app = app
        self.activity = activity
        self.aps = aps
    }

    public init(app: UnsafeRawBufferPointer, audience: UnsafeRawBufferPointer, aps: UnsafeRawBufferPointer) {
        self.app = app
        self.audience = audience
        self.aps = aps
    }

    public init(
        app: UnsafeRawBufferPointer,
        channel: UnsafeRawBufferPointer,
        environment: APNsEnvironment,
        aps: UnsafeRawBufferPointer
    ) {
        self.app = app
        self.channel = (channel, environment)
        self.aps = aps
    }

    /// Appends the record. Absent fields are left out.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("app", app)
        writer.member("activity", activity)
        writer.member("audience", audience)
        if let channel {
            writer.member("channel", channel.identifier)
            writer.key("environment")
            writer.string(channel.environment.name)
        } else if requestsChannel {
            writer.key("channel")
            writer.boolean(true)
        }
        writer.member("device", device)
        writer.member("id", identifier)
        if sequence != 0 {
            writer.key("sequence")
            writer.integer(sequence)
        }
        if priority != 0 { writer.member("priority", Int64(priority)) }
        writer.member("policy", policy)
        if expirationSeconds >= 0 { writer.member("expiration", expirationSeconds) }
        if let carriedAlertVersion {
            writer.member("alertTimestamp", carriedAlertVersion.timestamp)
            writer.key("alertSequence")
            writer.integer(carriedAlertVersion.sequence)
        }
        if let token {
            writer.member("token", token.digits)
            writer.key("environment")
            writer.string(token.environment.name)
        }
        writer.key("aps")
        if let address { address.writeWithAddress(aps, to: &writer) } else { writer.raw(aps) }
        if let payloadMembers, !payloadMembers.isEmpty {
            writer.key("payload")
            writer.beginObject()
            writer.raw(payloadMembers)
            writer.endObject()
        }
        writer.endObject()
    }
}
