import APNs
import CausewayConfiguration
import Kafka
import LiveActivity
import Observability
import Reactor
import Redis

extension LabelSpace {
    /// The labels of a worker with this configuration.
    ///
    /// - Parameter signers: by the key that each was configured with; a key that takes another's place later counts under the first.
    init(_ configuration: WorkerConfiguration, signers: [AppKey], keyIdentifiers: [String], version: String) {
        self.init(
            apps: configuration.apps.map(\.name),
            pools: configuration.apps.flatMap { app in
                app.environments.map { Pool(app: app.name, environment: "\($0.name)") }
            },
            outcomes: Outcome.allCases.map { "\($0.name)" },
            answers: AnswerTable(
                reasons: Reason.allCases.map { .init(documentedStatus: $0.documentedStatus, text: "\($0.text)") }
            ),
            signers: zip(signers, keyIdentifiers).map { Signer(team: $0.teamIdentifier, keyIdentifier: $1) },
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

    /// By librdkafka's code: its place among ``kafkaErrors``.
    static var kafkaErrorIndices: [Int32: Int] {
        Dictionary(kafkaErrors.enumerated().map { ($1.code, $0) }) { first, _ in first }
    }
}
