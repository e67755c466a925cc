import Redis

/// The limits of the values in the store. (R4)
public enum StoreLimits {
    /// The maximum number of updates, ends and settlements that leave as one Redis command.
    public static let callsPerCommandMax = CallBatch.callsMax
    /// The longest command record that can be held: it must fit into one reply.
    public static let heldCommandBytesMax = ReplyReader.stringBytesMax - 64
    /// The maximum number of starts that are held for one device and attributes type, one for each activity.
    /// Another start fails at once (`heldStartsFull`).
    public static let heldStartsMax = 8
    /// The maximum number of audiences that may not know yet that a member left them. A registration that
    /// would exceed it is repeated later.
    public static let departuresMax = 16
    /// The longest token that is stored.
    public static let tokenBytesMax = 256
    /// The longest attributes type, in bytes.
    public static let attributesTypeBytesMax = 256
    /// How long an activity is stored after the last change of its value's length, its newest version or its
    /// token. This is twice the 12 hours that a Live Activity can stay on the Lock Screen, plus more than the
    /// 1,000 seconds in which a send verdict does not renew the expiry.
    public static let activityLifetimeMilliseconds: Int64 = 25 * 3_600_000
    /// The highest factor by which a lease grows. Each reading of the command that ends an activity, or
    /// starts it again, postpones the next claim of the activity by a lease. The lease doubles with each
    /// claim.
    public static let leaseFactorMax: Int64 = 8
    /// The number of claims after which the timetable gives up a life whose end is refused because another
    /// end was admitted. By then the other end has been settled or is lost.
    public static let claimsOfAnotherEndMax: Int64 = 4
    /// How long a device is stored after its last registration, hold or start. A push-to-start token is valid
    /// as long as the app is installed, so the time is long: 90 days.
    public static let deviceLifetimeMilliseconds: Int64 = 90 * 24 * 3_600_000
    /// The time after which the system ends an activity (Apple, "ActivityKit": eight hours), counted in whole
    /// seconds. Redis admits no update later. An update that was admitted in time may reach the phone later,
    /// because of its retries.
    public static let updatesSeconds: Int64 = 8 * 3_600
    /// The maximum number of doublings of a spacing: 2²² ms is more than an hour, the longest spacing.
    public static let doublingsMax = 22
}
