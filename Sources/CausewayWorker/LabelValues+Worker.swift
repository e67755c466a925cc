import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Observability
import Reactor
import Redis

extension LabelValues {
    /// Makes the labels of the metrics of a worker with this configuration.
    ///
    /// - Parameter keyIds: the ids of `signingKeys`, in the same order. The labels keep these ids, even if a key file
    ///   is replaced later.
    init(
        _ configuration: WorkerConfiguration,
        signingKeys: [ConfiguredSigningKey],
        keyIds: [String],
        version: String
    ) {
        self.init(
            apps: configuration.apps.map(\.name),
            pools: configuration.pools.map {
                Pool(app: configuration.apps[$0.appIndex].name, environment: $0.environmentLabel)
            },
            outcomes: Outcome.allCases.map { "\($0.name)" },
            responses: ResponseTable(
                reasons: Reason.allCases.map { .init(documentedStatus: $0.documentedStatus, text: "\($0.text)") }
            ),
            signingKeys: zip(signingKeys, keyIds)
                .map { SigningKey(team: $0.teamId, keyId: $1) },
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
