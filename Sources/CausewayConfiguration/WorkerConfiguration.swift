import Delivery
import LiveActivity
import Logging

/// The complete configuration of a worker as plain values, from the YAML file and the environment.
///
/// The properties have the names of the keys: the key `worker.lanes` sets `worker.lanes`. The initial values are the
/// defaults. `ConfigurationSchema` explains the keys, so a property has a comment only for what the schema does not
/// say.
package struct WorkerConfiguration: Sendable {
    package var log = Log()
    package var http = HTTP()
    package var kafka = Kafka()
    package var redis = Redis()
    package var apns = APNs()
    /// The apps in the order of their names. There is at least one, and no two have the same bundle id.
    package var apps: [App] = []
    /// The policies: `default` first, then the others in the order of their names. If a running worker reloads its
    /// configuration, new policies follow at the end.
    package var policies = [Policy(name: WorkerConfiguration.defaultPolicyName)]
    package var worker = Worker()
    package var tracing = Tracing()

    package init() {}

    /// The name of the policy that always exists, and that an app uses if it names none.
    package static let defaultPolicyName = "default"
}

extension WorkerConfiguration {
    /// The level and the form of log lines.
    package struct Log: Sendable {
        package enum Format: String, Sendable, CaseIterable {
            case json, text
        }

        package var level = Logger.Level.info
        package var format = Format.json
    }

    /// The address of the HTTP server for metrics, health and the status page.
    package struct HTTP: Sendable {
        package var host = "0.0.0.0"
        package var port = 9_464

        package init() {}
    }

    /// The Kafka cluster, the topics, and the properties of the clients.
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

        package var bootstrapServers = ""
        package var groupId = "causeway"
        package var topics = Topics()
        package var supersededResults = SupersededResultMode.countedWhenBehind
        package var properties: [KafkaProperty] = []
        package var propertyFiles: [PropertyValueFile] = []
        package var consumer: [KafkaProperty] = []
        package var producer: [KafkaProperty] = []

        package init() {}
    }

    /// The Redis that stores activities, devices and audiences.
    package struct Redis: Sendable {
        package enum Mode: String, Sendable, CaseIterable {
            case single
            case sentinel
            /// A Redis Cluster. The URL needs to name only some servers; the client learns the others from them.
            case cluster
        }

        package var mode = Mode.single
        /// The text that `RedisURL` parses. It may contain a password, so never print it.
        package var url = ""
        /// The URL may contain a password, so never print it.
        package var sentinelURL: String?
        package var sentinelPasswordFile: String?
        package var passwordFile: String?
        package var caFile: String?
        package var certificateFile: String?
        package var keyFile: String?
        package var responseTimeoutMilliseconds = 1_000
        package var replicas = 0
        package var rereadMinutes = 720
    }

    /// The APNs hosts and the connections to them.
    package struct APNs: Sendable {
        package struct Endpoint: Sendable {
            package var host: String
            package var port = 443
            /// The host for broadcasts; nil means `host`.
            package var broadcastHost: String?
            /// The port for broadcasts; 0 means `port`.
            package var broadcastPort = 0
            package var managementHost: String
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
        package var caFile: String?
        package var sharedTokenKeyFile: String?
        package var connectionsPerPool = 2
        /// At a round trip of 60 ms, 1,000 requests in flight carry 16,000 pushes a second (Measurements.md).
        package var inFlightPerConnection = 1_000
        package var requestTimeoutMilliseconds = 10_000
        package var connectTimeoutMilliseconds = 5_000

        package func endpoint(for environment: APNsEnvironment) -> Endpoint {
            switch environment {
            case .production: production
            case .sandbox: sandbox
            }
        }
    }

    /// The broadcast channels of an app's audiences.
    package struct Channels: Sendable {
        package enum Storage: String, Sendable, CaseIterable {
            case none, newest
        }

        package var audiences: [String] = []
        package var storage = Storage.newest
        package var keepSeconds = 3_600
        /// At least one environment, and none twice.
        package var environments = [APNsEnvironment.production]
    }

    /// How an app's commands are checked against its contract: the JSON that its phones can decode. APNs accepts any
    /// JSON, but a phone that cannot decode it shows nothing.
    package struct Shapes: Sendable {
        package enum Mode: String, Sendable, CaseIterable {
            case refuse, warn
        }

        package var file: String?
        package var mode = Mode.refuse
    }

    /// One app, and the key that signs its provider tokens.
    package struct App: Sendable {
        /// The name under `apps` in the file. Logs, metrics, the status page, messages about faults and environment
        /// variables use this name. Records name the app by `bundleId`.
        package let name: String
        package var bundleId = ""
        package var teamId = ""
        /// The id of the key at Apple: the `kid` in the header of the provider token.
        package var keyId = ""
        /// The file has a P-256 private key as PKCS #8 in PEM.
        package var keyFile = ""
        /// At least one environment, and none twice.
        package var environments = APNsEnvironment.allCases
        package var sandboxKeyId: String?
        package var sandboxKeyFile: String?
        package var policy = WorkerConfiguration.defaultPolicyName
        package var channels = Channels()
        package var shapes = Shapes()

        package init(name: String) {
            self.name = name
        }

        /// Returns the id and the file of the key that signs the provider tokens for `environment`.
        package func signingKeyReference(for environment: APNsEnvironment) -> (keyId: String, keyFile: String) {
            if environment == .sandbox, let sandboxKeyId, let sandboxKeyFile {
                return (sandboxKeyId, sandboxKeyFile)
            }
            return (keyId, keyFile)
        }
    }

    /// The settings of the worker itself: its lanes, its memory and its waits.
    package struct Worker: Sendable {
        package var lanes = 0
        package var drainMilliseconds = 20_000
        package var memoryMebibytes = 0
        /// The maximum number of all records in a lane, registrations included. (R4)
        package var commandsPerLane = 131_072
        package var retryMillisecondsMax = 300_000
        package var deferAfterMilliseconds = 10_000
        package var deferredDelayMilliseconds = 30_000
        /// Above this number of unread commands in all partitions of a lane together, the lane reads ahead.
        package var readAheadLagRecords = 10_000
        package var readAheadMillisecondsMax = 30_000
    }

    /// The share of records that are traced, and the collector of the traces.
    package struct Tracing: Sendable {
        package var endpoint: String?
        package var caFile: String?
        package var headersFile: String?
        package var samplesPerMillion = 0
    }
}
