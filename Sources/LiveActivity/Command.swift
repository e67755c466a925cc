/// One record of the commands topic, decoded: numbers, and ranges into the record's bytes.
///
/// A command owns nothing and copies nothing. It may be kept and copied freely; its ranges are read against the record,
/// or against a copy of the record, for as long as that is kept.
public struct Command: Sendable, BitwiseCopyable {
    public var event: Event
    /// What orders the activity's commands: `aps.timestamp` and `sequence`.
    public var version: Version
    /// Bundle id of the app.
    public var app: TextRange
    /// Of a command to an audience absent, but for a start: then the ``DeviceTemplate`` of the ids of the activities that it begins.
    public var activity: TextRange
    /// The audience that the command is for, in place of an activity.
    public var audience: TextRange
    /// A broadcast channel that its producer keeps, in place of an activity or an audience: the id, in ``environment``.
    public var channel: TextRange
    /// Of a command to an audience: it asks for a broadcast channel, whatever the configuration says.
    public var asksForChannel: Bool
    /// The device whose push-to-start token is used. Present with, and only with, an ``Event/start`` of one activity.
    public var device: TextRange
    /// The command's own `id`; absent, its place in the topic names it.
    public var identifier: TextRange
    /// Hexadecimal digits, upper or lower case, never escaped; present only with ``environment``.
    public var token: TextRange
    /// Of the token, or of the channel; nil of a channel in production.
    public var environment: DeviceEnvironment?
    /// The policy that the command names, never escaped; absent, its app's own holds.
    public var policy: TextRange
    /// `aps.attributes-type`; always present in a start.
    public var attributesType: TextRange
    /// Apple's dictionary, braces included, byte for byte as it came.
    public var aps: ByteRange
    /// The ten digits of `aps.timestamp`; they lie inside ``aps``.
    public var timestampDigits: ByteRange
    /// The value of `aps.alert`; it lies inside ``aps``.
    public var alert: ByteRange
    /// The object of custom keys, braces included.
    public var payload: ByteRange
    /// The members of ``payload`` without its braces and the white space next to them; absent also if there are none.
    public var payloadMembers: ByteRange
    /// `apns-priority`: 5 or 10; 0 leaves it to the policy.
    public var priority: UInt8
    /// UNIX seconds after which it is not sent; -1 if absent.
    public var expiration: Int64
    public var hasAlert: Bool { !alert.isAbsent }
    /// `aps.stale-date` in whole UNIX seconds, fractions cut, clamped to what is not negative; -1 if absent.
    public var staleDate: Int64
    /// `aps.dismissal-date`, likewise. 0 and all that is past mean *at once*.
    public var dismissalDate: Int64
    /// Of a held command: the version of the command that brought the alert, if that was an older one; its timestamp is 0 otherwise.
    public var alertVersion: Version
    /// Bytes of the request body that ``Body/write(_:from:into:)`` composes, at most ``Limits/bodyBytes``, to a channel ``Limits/broadcastBodyBytes``.
    public var bodyCount: Int

    /// Refuses a timestamp that is ahead of the clock by more than clocks differ.
    /// - Parameter now: UNIX seconds.
    @inlinable
    public func checkTimestamp(now: Int64) throws(Fault) {
        guard version.timestamp - now > Limits.timestampLeadSeconds else { return }
        throw Fault.timestampInFuture(self, now: now)
    }
}
