/// A fault that the demo causes during the season, or the end of such a fault.
struct Disturbance: Equatable {
    enum Kind: String, CaseIterable {
        /// The worker is killed, and another one is started.
        case workerCrashes = "worker killed on purpose"
        case redisStops = "Redis stopped on purpose"
        case redisRestarts = "Redis started again"
        case redisIsWiped = "data in Redis deleted on purpose"

        /// Returns how often each kind happens. Kinds that do not happen are left out.
        static func counts(of disturbances: [Disturbance]) -> [DemoFigures.DisturbanceCount] {
            allCases.map { kind in
                DemoFigures.DisturbanceCount(
                    what: kind.rawValue,
                    count: disturbances.count { $0.kind == kind }
                )
            }
            .filter { $0.count > 0 }
        }
    }

    /// How long after the beginning of the demo's season the fault begins or ends.
    var afterMilliseconds: Int64
    var kind: Kind
}
