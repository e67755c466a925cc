import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Observability
import Reactor
import Redis

extension LabelValues {
    /// Makes the labels of a worker with this configuration.
    ///
    /// - Parameter signingKeys: the signing keys; `keyIdentifiers` has their ids in the same order. If a key file is
    ///   replaced later, its label keeps the id that the key had when the labels were made.
    init(
        _ configuration: WorkerConfiguration,
        signingKeys: [ConfiguredSigningKey],
        keyIdentifiers: [String],
        version: String
    ) {
        self.init(
            apps: configuration.apps.map(\.name),
            pools: configuration.apps.flatMap { app in
                app.environments.map { Pool(app: app.name, environment: "\($0.name)") }
            },
            outcomes: Outcome.allCases.map { "\($0.name)" },
            responses: ResponseTable(
                reasons: Reason.allCases.map { .init(documentedStatus: $0.documentedStatus, text: "\($0.text)") }
            ),
            signingKeys: zip(signingKeys, keyIdentifiers)
                .map { SigningKey(team: $0.teamIdentifier, keyIdentifier: $1) },
            policies: configuration.policies.map(\.name),
            redisErrors: RedisError.Code.allCases.map { "\($0)" } + ["other"],
            kafkaErrors: Self.kafkaErrors.map(\.name) + ["other"],
            build: Build(
                version: version,
                librdkafka: KafkaLibrary.version,
                openssl: TLSContext.libraryVersion,
                hiredis: RedisConnection.libraryVersion
            )
        )
    }

    private static let kafkaErrors = KafkaLibrary.errors

    /// The index in ``kafkaErrors`` of each error, by librdkafka's error code.
    static var kafkaErrorIndices: [Int32: Int] {
        Dictionary(kafkaErrors.enumerated().map { ($1.code, $0) }) { first, _ in first }
    }
}
