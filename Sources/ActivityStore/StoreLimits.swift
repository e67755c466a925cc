import Redis

/// The bounds of what the store keeps.
public enum StoreLimits {
    /// The most updates, ends and settlements that leave as one command.
    public static let callsPerCommandMax = CallBatch.callsMax
    /// Longest command record that can be held: it has to come back in one reply.
    public static let heldCommandBytesMax = ReplyReader.stringBytesMax - 64
    /// The most starts that are held for one token of a device.
    public static let heldStartsMax = 8
    /// The most audiences that an activity or a device may have left without their knowing of it, before another registration counts.
    public static let leavesMax = 16
    /// Longest token that is stored.
    public static let tokenBytesMax = 256
    /// Longest attributes type, in bytes.
    public static let attributesTypeBytesMax = 256
    /// How long an activity is kept after the last change of its length, its newest version or its token: the life of a Live Activity on
    /// the Lock Screen, 12 hours, and as much again, and more than the 1,000 seconds in which a send verdict leaves the expiry as it is.
    public static let activityLifetimeMilliseconds: Int64 = 25 * 3_600_000
    /// How long a device is kept after its last registration, hold or start.
    public static let deviceLifetimeMilliseconds: Int64 = 90 * 24 * 3_600_000
    /// After this long the system has ended an activity (Apple, "ActivityKit": eight hours). Counted in whole seconds.
    public static let updatesSeconds: Int64 = 8 * 3_600
    /// The most doublings of a spacing: more than lead from a millisecond to an hour.
    public static let doublingsMax = 22
}
