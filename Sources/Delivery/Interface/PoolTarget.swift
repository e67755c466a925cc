import LiveActivity

/// The app and the environment to which an APNs pool sends. If broadcasts have a pool of their own, two pools have the
/// same target, and `PoolTraffic` tells them apart.
public struct PoolTarget: Sendable, Equatable, BitwiseCopyable {
    public var appIndex: UInt16
    public var environment: APNsEnvironment

    public init(appIndex: UInt16, environment: APNsEnvironment) {
        self.appIndex = appIndex
        self.environment = environment
    }
}
