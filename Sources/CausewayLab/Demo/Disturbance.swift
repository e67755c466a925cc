/// Something that happens to the parts of a demo during the season, on purpose.
struct Disturbance: Equatable {
    enum Kind: String, CaseIterable {
        /// The worker is killed and another one started.
        case workerCrashes = "worker killed on purpose"
        case redisGoes = "Redis taken away on purpose"
        case redisReturns = "Redis given back"
        case redisIsWiped = "Redis wiped on purpose"

        /// How often each kind happens. Kinds that do not happen are left out.
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

    /// Time from the first ball.
    var afterMilliseconds: Int64
    var kind: Kind
}
