/// Which pushes a pool sends. In each environment, an app has one pool for `everything`. But if broadcasts go to
/// another host or port, the app has two pools: one for `devicePushes`, and one for `broadcasts`.
public enum PoolTraffic: UInt8, Sendable, BitwiseCopyable {
    case everything
    /// Pushes to devices: those of single commands, and those to members.
    case devicePushes
    case broadcasts

    public var hasDevicePushes: Bool { self != .broadcasts }
    public var hasBroadcasts: Bool { self != .devicePushes }
}
