/// One decoded record of the commands topic: numbers, and ranges into the record's bytes.
///
/// A command owns no memory, so it may be copied freely. Its ranges are valid only together with the record's bytes, or
/// with a copy of these bytes.
public struct Command: Sendable, BitwiseCopyable {
    public var event: Event
    /// `aps.timestamp` and `sequence`. They order the commands of one activity, audience or channel.
    public var version: Version
    /// The app's bundle id.
    public var app: TextRange
    /// The activity's id. In a start to an audience: the template of the activities' ids
    /// (``ActivityIdentifierTemplate``). Absent in a command to a channel, and in an update or end to an audience.
    public var activity: TextRange
    /// The id of the audience that the command is for; absent in a command to an activity or a channel.
    public var audience: TextRange
    /// The id of a broadcast channel that the producer manages; absent in a command to an activity or an audience.
    public var channel: TextRange
    /// Whether a command to an audience asks for a broadcast channel. If the audience's id matches a pattern of the
    /// configuration, the audience gets a channel even if this is false.
    public var requestsChannel: Bool
    /// The device whose push-to-start token is used. Present only in a start of a single activity.
    public var device: TextRange
    /// The command's own `id`. If it is absent, results name the command by its place, `topic/partition/offset`.
    public var identifier: TextRange
    /// The token that came with the command: hexadecimal digits in upper or lower case, never escaped. Absent if none
    /// came; otherwise ``environment`` is the token's environment.
    public var token: TextRange
    /// The environment of the token or of the channel; nil if the command names none. A command to a channel is then
    /// for production.
    public var environment: APNsEnvironment?
    /// The policy that the command names, never escaped. If absent, the default policy of the app applies.
    public var policy: TextRange
    /// `aps.attributes-type`; always present in a start.
    public var attributesType: TextRange
    /// Apple's dictionary including its braces, byte for byte as in the record.
    public var aps: ByteRange
    /// The ten digits of `aps.timestamp`, inside ``aps``.
    public var timestampDigits: ByteRange
    /// The value of `aps.alert`, inside ``aps``; absent if there is none.
    public var alert: ByteRange
    /// The value of `aps.content-state`, inside ``aps``; absent if there is none.
    public var contentState: ByteRange
    /// The value of `aps.attributes`, inside ``aps``; absent if there is none.
    public var attributes: ByteRange
    /// The `payload`: an object of custom keys, including its braces; absent if there is none.
    public var payload: ByteRange
    /// The keys and values of ``payload`` without its braces and without the white space at both ends. Absent if the
    /// command has no payload, or an empty one.
    public var payloadMembers: ByteRange
    /// The priority that the command asks for: 5 or 10; 0 if the command asks for none. Instead of 0, Causeway uses 5
    /// for an update without an alert, and 10 for all other commands.
    public var priority: UInt8
    /// The command is not sent after this time, UNIX seconds; -1 if absent.
    public var expirationSeconds: Int64
    public var hasAlert: Bool { !alert.isAbsent }
    /// `aps.stale-date` in whole UNIX seconds; -1 if absent. A fraction is cut off, and a negative number becomes 0.
    public var staleDateSeconds: Int64
    /// `aps.dismissal-date` in the form of ``staleDateSeconds``. If this time has passed, the device removes the
    /// activity at once.
    public var dismissalDateSeconds: Int64
    /// The version of the older command whose alert this command carries. Only a command that Causeway wrote carries
    /// such an alert. The timestamp is 0 if the alert is this command's own, or absent.
    public var carriedAlertVersion: Version
    /// The length of the command's request body (``PushBody/write(_:from:into:)``). It exceeds ``bodyBytesMax`` only in
    /// a command that a function `decodeIgnoringBodyLimit` decoded.
    public var bodyByteCount: Int

    /// The maximum length of the body, in bytes. APNs allows a longer body for a broadcast channel.
    @inlinable
    public var bodyBytesMax: Int { channel.isAbsent ? Limits.bodyBytesMax : Limits.broadcastBodyBytesMax }

    /// Whether the body is small enough for APNs.
    @inlinable
    public var fitsBodyLimit: Bool { bodyByteCount <= bodyBytesMax }

    /// The fault of a command whose body is too large.
    public var bodyTooLargeFault: Fault {
        Fault(.bodyTooLarge, channel.isAbsent ? .body : .channel, at: Int(aps.offset), valueAboveLimit: bodyByteCount)
    }

    /// Throws if `aps.timestamp` is more than ``Limits/timestampLeadSecondsMax`` ahead of the clock.
    ///
    /// - Parameter nowSeconds: UNIX seconds.
    @inlinable
    public func checkTimestamp(nowSeconds: Int64) throws(Fault) {
        guard version.timestamp - nowSeconds > Limits.timestampLeadSecondsMax else { return }
        throw Fault.timestampInFuture(self, nowSeconds: nowSeconds)
    }
}
