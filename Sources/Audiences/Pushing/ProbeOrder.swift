/// Decides when a pool whose breaker is open may probe with broadcasts. Such a pool sends only one push at a time.
///
/// Usually broadcasts come before starts (R16). But if APNs or a proxy refused the last broadcast for something that
/// pushes to devices may not have, such as the path, broadcasts come last: their refusals would keep the breaker open
/// although pushes to devices succeed again.
public struct ProbeOrder: Sendable {
    private var areBroadcastsRefused = false

    public init() {}

    /// Notes the response to a broadcast of the pool.
    ///
    /// - Parameter mayRefuseOnlyBroadcasts: whether the response refuses something that pushes to devices may not have.
    public mutating func noteBroadcastResponse(isAccepted: Bool, mayRefuseOnlyBroadcasts: Bool) {
        if isAccepted { areBroadcastsRefused = false }
        if mayRefuseOnlyBroadcasts { areBroadcastsRefused = true }
    }

    /// Returns what audiences may send before the starts of single commands: all of `traffic`, or only `devicePushes`
    /// if broadcasts must come after the starts.
    public func trafficBeforeStarts(of traffic: PoolTraffic, isProbing: Bool) -> PoolTraffic {
        isProbing && areBroadcastsRefused && traffic == .everything ? .devicePushes : traffic
    }
}
