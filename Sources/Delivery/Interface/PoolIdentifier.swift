import LiveActivity

/// An app in one environment, which names an APNs pool of the lane. Broadcasts may have a pool of their own. Then both
/// pools have the same identifier, and `PoolTraffic` tells them apart.
public struct PoolIdentifier: Sendable, Equatable, BitwiseCopyable {
    public var appIndex: UInt16
    public var environment: APNsEnvironment

    public init(appIndex: UInt16, environment: APNsEnvironment) {
        self.appIndex = appIndex
        self.environment = environment
    }
}
