/// Which pushes a pool sends. An app has one pool for `everything` in an environment. But if broadcasts have another
/// host or port, it has two: one for `devicePushes`, and one for `broadcasts`.
public enum PoolTraffic: UInt8, Sendable, BitwiseCopyable {
    case everything
    /// Pushes to devices: those of single commands, and those to members.
    case devicePushes
    case broadcasts

    public var hasDevicePushes: Bool { self != .broadcasts }
    public var hasBroadcasts: Bool { self != .devicePushes }
}
