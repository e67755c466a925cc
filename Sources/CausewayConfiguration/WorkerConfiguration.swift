import Delivery
import LiveActivity
import Logging

/// Everything a worker can be told, as plain values: what the YAML file and the environment come to.
///
/// The property names are the names of the keys: `worker.lanes` in the file is `worker.lanes` here. The initial values are the defaults; `ConfigurationSchema` adds the ranges and
/// `Config/causeway.yaml` the explanations, and a test holds the three together.
package struct WorkerConfiguration: Sendable {
    package var log = Log()
    package var http = HTTP()
    package var kafka = Kafka()
    package var redis = Redis()
    package var apns = APNs()
    /// The apps whose commands are carried, in the order of their names. At least one, at most 255; bundle ids differ.
    package var apps: [App] = []
    /// The sets of numbers for pace and budget: `default` first, then the others in the order of their names. 1...64; names differ.
    package var policies = [Policy(name: WorkerConfiguration.defaultPolicyName)]
    package var worker = Worker()
    package var tracing = Tracing()

    package init() {}

    /// The policy that is there whether it is written or not, and that an app has which names none.
    package static let defaultPolicyName = "default"
}

extension WorkerConfiguration {
    /// What is logged, and how it looks.
    package struct Log: Sendable {
        /// One line an event: JSON for machines, text for people.
        package enum Format: String, Sendable, CaseIterable {
            case json, text
        }

        package var level = Logger.Level.info
        package var format = Format.json
    }

    /// Where metrics, health and status are asked for.
    package struct HTTP: Sendable {
        /// A numeric address of this machine.
        package var host = "0.0.0.0"
        /// 0: nothing is served. 0...65,535.
        package var port = 9_464

        /// The defaults.
        package init() {}
    }

    /// Where commands come from and results go.
    package struct Kafka: Sendable {
        package struct Topics: Sendable {
            package var commands = "causeway.commands"
            package var registrations = "causeway.registrations"
            package var results = "causeway.results"
            package var invalidations = "causeway.invalidations"
            package var deadLetters = "causeway.dead-letters"
            package var deferred = "causeway.deferred"
            package var fanout = "causeway.fanout"
            package var channels = "causeway.channels"

            package init() {}
        }

        /// Comma-separated `host:port`.
        package var bootstrapServers = ""
        package var groupId = "causeway"
        package var topics = Topics()
        package var supersededResults = SupersededResults.countedWhenBehind
        /// librdkafka properties of both clients.
        package var properties: [KafkaProperty] = []
        /// Further properties of both clients, whose values stand in files: passwords and keys. None is in `properties` too.
        package var propertyFiles: [KafkaPropertyFile] = []
        /// librdkafka properties of the consumer, over `properties`.
        package var consumer: [KafkaProperty] = []
        /// librdkafka properties of the producer, over `properties`.
        package var producer: [KafkaProperty] = []

        package init() {}
    }

    /// The fast memory of versions, tokens and pace.
    package struct Redis: Sendable {
        /// Which servers there are, and what `url` names.
        package enum Mode: String, Sendable, CaseIterable {
            /// One server: its host, or its Unix socket.
            case single
            /// A primary and its replicas: the name that the Sentinels know the primary by, in the host's place.
            case sentinel
            /// A cluster: one or more of its servers, from which the others are learnt.
            case cluster
        }

        package var mode = Mode.single
        /// `redis://`, `rediss://` (TLS) or `unix://`; see `RedisURL` for the form. May hold a password: never print it.
        package var url = ""
        /// Where the Sentinels are, in mode `sentinel`. May hold a password: never print it.
        package var sentinelURL: String?
        /// A file whose first line is the Sentinels' password. Overrides a password in `sentinelURL`.
        package var sentinelPasswordFile: String?
        /// A file whose first line is the password. Overrides a password in the URL.
        package var passwordFile: String?
        /// PEM file of the authorities that the server's certificate is checked against; nil: the system's.
        package var caFile: String?
        /// PEM files of the client's certificate and its key, both or neither.
        package var certificateFile: String?
        package var keyFile: String?
        /// Time after which an unanswered call counts as failed. 10...60,000.
        package var responseTimeoutMilliseconds = 1_000
        /// How many replicas of a primary must have a registration or a held state before it counts. 0...16.
        package var replicas = 0
        /// How far back commands are read once more when Redis has lost everything. 1...720.
        package var rereadMinutes = 720
    }

    /// How APNs is reached.
    package struct APNs: Sendable {
        package struct Endpoint: Sendable {
            package var host: String
            /// 1...65,535.
            package var port = 443
            /// Where broadcast channels are managed.
            package var managementHost: String
            /// 1...65,535.
            package var managementPort: Int
        }

        package var production = Endpoint(
            host: "api.push.apple.com",
            managementHost: "api-manage-broadcast.push.apple.com",
            managementPort: 2_196
        )
        package var sandbox = Endpoint(
            host: "api.sandbox.push.apple.com",
            managementHost: "api-manage-broadcast.sandbox.push.apple.com",
            managementPort: 2_195
        )
        /// PEM file of the authorities that APNs' certificate is checked against; nil: the system's.
        package var caFile: String?
        /// A file with the key that encrypts provider tokens in Redis: 32 bytes, or their Base64. All workers of a fleet have the same, and
        /// share their tokens; nil: each signs its own.
        package var sharedTokenKeyFile: String?
        /// The most HTTP/2 connections that each lane opens for each app and environment; how many there are follows demand. 1...16.
        package var connectionsPerPool = 2
        /// The most requests that wait for their answer on one connection; APNs' own limit applies if it is lower.
        /// 1...4,096.
        package var inFlightPerConnection = 1_000
        /// Time from sending a request to its answer, after which it counts as lost. 100...60,000.
        package var requestTimeoutMilliseconds = 10_000
        /// Time for name look-up, TCP and TLS together. 100...60,000.
        package var connectTimeoutMilliseconds = 5_000

        package func endpoint(for environment: DeviceEnvironment) -> Endpoint {
            switch environment {
            case .production: production
            case .sandbox: sandbox
            }
        }
    }

    /// The broadcast channels of an app's audiences.
    package struct Channels: Sendable {
        package enum Storage: String, Sendable, CaseIterable {
            /// APNs keeps no message; more may be published.
            case none
            /// APNs keeps the newest, for 8 h at most.
            case newest
        }

        /// Audiences that get a channel, a `*` at the end for whatever follows; any other by a command that asks
        /// for one, or by `causeway channels create`.
        package var audiences: [String] = []
        package var storage = Storage.newest
        /// A channel is deleted so long after its audience has ended. 0...2,592,000.
        package var keepSeconds = 3_600
        /// Never empty, no element twice.
        package var environments = [DeviceEnvironment.production]
    }

    /// One app, and the key that signs its provider tokens.
    package struct App: Sendable {
        /// The name under `apps` in the file; it stands in logs and in the names of environment variables only.
        package let name: String
        package var bundleId = ""
        /// Apple's ten characters.
        package var teamId = ""
        /// Apple's ten characters, the `kid` of the provider token.
        package var keyId = ""
        /// The `.p8` file: a PKCS #8 PEM of a P-256 private key.
        package var keyFile = ""
        /// Never empty, no element twice.
        package var environments = DeviceEnvironment.allCases
        /// A key for the sandbox alone, since Apple ties new keys to one environment. Both or neither; nil: the key
        /// above.
        package var sandboxKeyId: String?
        package var sandboxKeyFile: String?
        /// The policy of the commands that name none.
        package var policy = WorkerConfiguration.defaultPolicyName
        package var channels = Channels()

        package init(name: String) {
            self.name = name
        }

        /// The key that signs for `environment`.
        package func signingKey(for environment: DeviceEnvironment) -> (keyId: String, keyFile: String) {
            if environment == .sandbox, let sandboxKeyId, let sandboxKeyFile {
                return (sandboxKeyId, sandboxKeyFile)
            }
            return (keyId, keyFile)
        }
    }

    /// The worker's own numbers.
    package struct Worker: Sendable {
        /// Threads that carry commands; 0: as many as processors that the process may use. 0...256.
        package var lanes = 0
        /// How long a stopping worker waits for what is on its way. 0...600,000.
        package var drainMilliseconds = 20_000
        /// Memory that the process uses at most; 0: 85 % of its control group's limit, 1,024 where there is none. 0...1,048,576.
        package var memoryMebibytes = 0
        /// The most commands that a lane holds from receipt to acknowledged result. 64...4,194,304.
        package var commandsPerLane = 131_072
        /// The longest that a push which APNs could not take waits before it is tried again. 1,000...3,600,000.
        package var retryMaxMilliseconds = 300_000
        /// A command that waits for so long, and cannot be sent soon, is deferred. 100...600,000.
        package var deferAfterMilliseconds = 10_000
        /// After so long a deferred command is read again. 100...600,000.
        package var deferredDelayMilliseconds = 30_000
        /// A lane whose partition has more unread commands than this reads on before it admits any. 1...1,000,000,000.
        package var readAheadLagRecords = 10_000
        /// How long it reads on at most before it begins to admit. 1...600,000.
        package var readAheadMaxMilliseconds = 30_000
    }
    /// What is told of the records' ways through the worker, and to whom.
    package struct Tracing: Sendable {
        /// A collector's base URL, for OTLP over HTTP, with TLS or without; nil: nothing is exported.
        package var endpoint: String?
        /// PEM file of the authorities that the collector's certificate is checked against; nil: the system's.
        package var caFile: String?
        /// A file with the headers that the collector asks for, `Name: value` a line; read again for each request.
        package var headersFile: String?
        /// Of a million commands that come without a trace, how many begin one. 0...1,000,000.
        package var samplesPerMillion = 0
    }
}
