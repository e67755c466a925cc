import LiveActivity

/// An APNs pool of the lane: an app in one environment.
public struct PoolIdentifier: Sendable, Equatable, BitwiseCopyable {
    public var appIndex: UInt16
    public var environment: APNsEnvironment

    public init(appIndex: UInt16, environment: APNsEnvironment) {
        self.appIndex = appIndex
        self.environment = environment
    }
}
