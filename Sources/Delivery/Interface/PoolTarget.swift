import LiveActivity

/// What an APNs pool of the lane sends to: an app in one environment. Broadcasts may have a pool of their own. Then two
/// pools have the same target, and `PoolTraffic` tells them apart.
public struct PoolTarget: Sendable, Equatable, BitwiseCopyable {
    public var appIndex: UInt16
    public var environment: APNsEnvironment

    public init(appIndex: UInt16, environment: APNsEnvironment) {
        self.appIndex = appIndex
        self.environment = environment
    }
}
