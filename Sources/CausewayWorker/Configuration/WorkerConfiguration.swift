public import Delivery
public import LiveActivity
public import Logging

/// Everything a worker can be told, as plain values: what the YAML file and the environment come to.
///
/// The property names are the names of the keys: `worker.attemptsMax` in the file is `worker.attemptsMax` here. The initial values are the defaults; `ConfigurationSchema` adds the ranges and
/// `Config/causeway.yaml` the explanations, and a test holds the three together.
public struct WorkerConfiguration: Sendable {
    public var log = Log()
    public var http = HTTP()
    public var kafka = Kafka()
    public var redis = Redis()
    public var apns = APNs()
    /// The apps whose commands are carried, in the order of their names. At least one, at most 255; bundle ids differ.
    public var apps: [App] = []
    /// The sets of numbers for pace and budget: `default` first, then the others in the order of their names. 1...64; names differ.
    public var policies = [Policy(name: WorkerConfiguration.defaultPolicyName)]
    public var worker = Worker()
    public var tracing = Tracing()

    public init() {}

    /// The policy that is there whether it is written or not, and that an app has which names none.
    public static let defaultPolicyName = "default"
}

extension WorkerConfiguration {
    /// What is logged, and how it looks.
    public struct Log: Sendable {
        /// One line an event: JSON for machines, text for people.
        public enum Format: String, Sendable, CaseIterable {
            case json, text
        }

        public var level = Logger.Level.info
        public var format = Format.json
    }

    /// Where metrics, health and status are asked for.
    public struct HTTP: Sendable {
        /// A numeric address of this machine.
        public var host = "0.0.0.0"
        /// 0: nothing is served. 0...65,535.
        public var port = 9_464

        /// The defaults.
        public init() {}
    }

    /// Where commands come from and results go.
    public struct Kafka: Sendable {
        public struct Topics: Sendable {
            public var commands = "causeway.commands"
            public var registrations = "causeway.registrations"
            public var results = "causeway.results"
            public var invalidations = "causeway.invalidations"
            public var deadLetters = "causeway.dead-letters"

            public init() {}
        }

        /// Comma-separated `host:port`.
        public var bootstrapServers = ""
        public var groupId = "causeway"
        public var topics = Topics()
        public var supersededResults = SupersededResults.countedWhenBehind
        /// librdkafka properties of both clients.
        public var properties: [KafkaProperty] = []
        /// Further properties of both clients, whose values stand in files: passwords and keys. None is in `properties` too.
        public var propertyFiles: [KafkaPropertyFile] = []
        /// librdkafka properties of the consumer, over `properties`.
        public var consumer: [KafkaProperty] = []
        /// librdkafka properties of the producer, over `properties`.
        public var producer: [KafkaProperty] = []

        public init() {}
    }

    /// The fast memory of versions, tokens and pace.
    public struct Redis: Sendable {
        /// Which servers there are, and what `url` names.
        public enum Mode: String, Sendable, CaseIterable {
            /// One server: its host, or its Unix socket.
            case single
            /// A primary and its replicas: the name that the Sentinels know the primary by, in the host's place.
            case sentinel
            /// A cluster: one or more of its servers, from which the others are learnt.
            case cluster
        }

        public var mode = Mode.single
        /// `redis://`, `rediss://` (TLS) or `unix://`; see `RedisURL` for the form. May hold a password: never print it.
        public var url = ""
        /// Where the Sentinels are, in mode `sentinel`. May hold a password: never print it.
        public var sentinelURL: String?
        /// A file whose first line is the Sentinels' password. Goes before a password in `sentinelURL`.
        public var sentinelPasswordFile: String?
        /// A file whose first line is the password. Goes before a password in the URL.
        public var passwordFile: String?
        /// PEM file of the authorities that the server's certificate is checked against; nil: the system's.
        public var caFile: String?
        /// PEM files of the client's certificate and its key, both or neither.
        public var certificateFile: String?
        public var keyFile: String?
        /// Time after which an unanswered call counts as failed. 10...60,000.
        public var responseTimeoutMilliseconds = 1_000
    }

    /// How APNs is reached.
    public struct APNs: Sendable {
        public struct Endpoint: Sendable {
            public var host: String
            /// 1...65,535.
            public var port = 443
        }

        public var production = Endpoint(host: "api.push.apple.com")
        public var sandbox = Endpoint(host: "api.sandbox.push.apple.com")
        /// PEM file of the authorities that APNs' certificate is checked against; nil: the system's.
        public var caFile: String?
        /// A file with the key that encrypts provider tokens in Redis: 32 bytes, or their Base64. All workers of a fleet have the same, and
        /// share their tokens; nil: each signs its own.
        public var sharedTokenKeyFile: String?
        /// The most HTTP/2 connections that each lane opens for each app and environment; how many there are follows demand. 1...16.
        public var connectionsPerPool = 2
        /// The most requests that wait for their answer on one connection; APNs' own limit, if lower, goes before it.
        /// 1...4,096.
        public var inFlightPerConnection = 1_000
        /// Time from sending a request to its answer, after which it counts as lost. 100...60,000.
        public var requestTimeoutMilliseconds = 10_000
        /// Time for name look-up, TCP and TLS together. 100...60,000.
        public var connectTimeoutMilliseconds = 5_000

        public func endpoint(for environment: Environment) -> Endpoint {
            switch environment {
            case .production: production
            case .sandbox: sandbox
            }
        }
    }

    /// Apple's two push environments. A token belongs to one of them.
    public enum Environment: String, Sendable, CaseIterable {
        case production, sandbox
    }

    /// One app, and the key that signs its provider tokens.
    public struct App: Sendable {
        /// The name under `apps` in the file; it stands in logs and in the names of environment variables only.
        public let name: String
        public var bundleId = ""
        /// Apple's ten characters.
        public var teamId = ""
        /// Apple's ten characters, the `kid` of the provider token.
        public var keyId = ""
        /// The `.p8` file: a PKCS #8 PEM of a P-256 private key.
        public var keyFile = ""
        /// Never empty, no element twice.
        public var environments = Environment.allCases
        /// A key for the sandbox alone, since Apple ties new keys to one environment. Both or neither; nil: the key
        /// above.
        public var sandboxKeyId: String?
        public var sandboxKeyFile: String?
        /// The policy of the commands that name none.
        public var policy = WorkerConfiguration.defaultPolicyName

        public init(name: String) {
            self.name = name
        }

        /// The key that signs for `environment`.
        public func signingKey(for environment: Environment) -> (keyId: String, keyFile: String) {
            if environment == .sandbox, let sandboxKeyId, let sandboxKeyFile {
                return (sandboxKeyId, sandboxKeyFile)
            }
            return (keyId, keyFile)
        }
    }

    /// The worker's own numbers.
    public struct Worker: Sendable {
        /// Threads that carry commands; 0: as many as processors that the process may use. 0...256.
        public var lanes = 0
        /// How long a stopping worker waits for what is on its way. 0...600,000.
        public var drainMilliseconds = 20_000
        /// The most commands that a lane holds from receipt to acknowledged result. 64...4,194,304.
        public var commandsPerLane = 131_072
        /// How often one push is tried, the first time included. 1...10.
        public var attemptsMax = 4
        /// A lane whose partition has more unread commands than this reads on before it admits any. 1...1,000,000,000.
        public var readAheadLagRecords = 10_000
        /// How long it reads on at most before it begins to admit. 1...600,000.
        public var readAheadMaxMilliseconds = 30_000
    }
    /// What is told of the records' ways through the worker, and to whom.
    public struct Tracing: Sendable {
        /// A collector's base URL, for OTLP over HTTP, with TLS or without; nil: nothing is exported.
        public var endpoint: String?
        /// PEM file of the authorities that the collector's certificate is checked against; nil: the system's.
        public var caFile: String?
        /// A file with the headers that the collector asks for, `Name: value` a line; read anew for each request.
        public var headersFile: String?
        /// Of a million commands that come without a trace, how many begin one. 0...1,000,000.
        public var samplesPerMillion = 0
    }
}
