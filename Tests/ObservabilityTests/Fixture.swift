import Foundation

@testable import Observability

/// Small metrics of a worker with two apps.
///
/// Tests name label values by their index in these lists: app 1 is `ride`, pool 1 is `match` in the sandbox, outcome 3
/// is `held`, reason 3 of a response is `InvalidProviderToken`, and Redis error 3 is `replicasMissing`.
enum Fixture {
    static let apps = ["match", "ride"]

    static var labels: LabelValues {
        LabelValues(
            apps: apps,
            pools: [
                .init(app: "match", environment: "production"), .init(app: "match", environment: "sandbox"),
                .init(app: "ride", environment: "production"),
            ],
            outcomes: ["accepted", "superseded", "failed", "held"],
            responses: ResponseTable(reasons: [
                .init(documentedStatus: 0, text: ""), .init(documentedStatus: 0, text: ""),
                .init(documentedStatus: 400, text: "BadDeviceToken"),
                .init(documentedStatus: 403, text: "InvalidProviderToken"),
                .init(documentedStatus: 410, text: "Unregistered"),
            ]),
            signingKeys: [.init(team: "TEAM123456", keyId: "KEY1234567")],
            policies: ["default"],
            redisErrors: ["moved", "outOfMemory", "unknown", "replicasMissing"],
            kafkaErrors: ["_TRANSPORT", "other"],
            build: .init(version: "1.2.3", librdkafka: "2.0.2", openssl: "3.0.22", hiredis: "0.14.1")
        )
    }

    static func metricRegistry(laneCount: Int = 2) -> MetricRegistry {
        MetricRegistry(labels: labels, laneCount: laneCount)
    }
}
