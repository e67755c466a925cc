import Delivery
import LiveActivity
import Logging

/// The complete configuration of a worker as plain values, from the YAML file and the environment.
///
/// The property names are the names of the keys: `worker.lanes` in the file is `worker.lanes` here. The
/// initial values are the defaults. `ConfigurationSchema` has the ranges and the explanations; a test checks
/// that it has the same names.
package struct WorkerConfiguration: Sendable {
    package var log = Log()
    package var http = HTTP()
    package var kafka = Kafka()
    package var redis = Redis()
    package var apns = APNs()
    /// The apps whose commands are sent, in the order of their names. At least one, at most 255; their bundle
    /// ids differ.
    package var apps: [App] = []
    /// The policies, sets of numbers for pace and budget: `default` first, then the others in the order of their names.
    /// A running worker appends new ones. At least one, at most 64; their names differ.
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
        /// One line per event: JSON for machines, text for people.
        package enum Format: String, Sendable, CaseIterable {
            case json, text
        }

        package var level = Logger.Level.info
        package var format = Format.json
    }

    /// The address of the HTTP server for metrics, health and the status page.
    package struct HTTP: Sendable {
        /// The numeric address of this machine on which the server listens.
        package var host = "0.0.0.0"
        /// The port; 0: there is no HTTP server. 0...65,535.
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

        /// The addresses of brokers: `host:port`, separated by commas.
        package var bootstrapServers = ""
        package var groupId = "causeway"
        package var topics = Topics()
        /// What the results say about superseded commands. The default writes one result for each, except while a lane
        /// is far behind. So after an outage, phones do not wait for millions of results `superseded`.
        package var supersededResults = SupersededResultMode.countedWhenBehind
        /// librdkafka properties of both the consumer and the producer.
        package var properties: [KafkaProperty] = []
        /// More librdkafka properties of both the consumer and the producer. Each value, such as a password or a key,
        /// is in a file. A property must not be here and in `properties`.
        package var propertyFiles: [PropertyValueFile] = []
        /// librdkafka properties of the consumer; they override `properties`.
        package var consumer: [KafkaProperty] = []
        /// librdkafka properties of the producer; they override `properties`.
        package var producer: [KafkaProperty] = []

        package init() {}
    }

    /// The Redis that stores activities, devices and audiences.
    package struct Redis: Sendable {
        /// How the servers are organized, and what `url` names.
        package enum Mode: String, Sendable, CaseIterable {
            /// One server: its host or its Unix socket.
            case single
            /// A primary and its replicas. The URL's host is the Sentinels' name for the primary.
            case sentinel
            /// A cluster. The URL names one or more of its servers. The client learns the other servers from
            /// them.
            case cluster
        }

        package var mode = Mode.single
        /// `redis://`, `rediss://` (TLS) or `unix://`; see `RedisURL` for the form. May have a password, so
        /// never print it.
        package var url = ""
        /// The Sentinels' addresses, in mode `sentinel`. May have a password, so never print it.
        package var sentinelURL: String?
        /// A file whose first line is the Sentinels' password. Overrides a password in `sentinelURL`.
        package var sentinelPasswordFile: String?
        /// A file whose first line is the password. Overrides a password in the URL.
        package var passwordFile: String?
        /// PEM file with the certificate authorities that the worker trusts for Redis' certificate; nil: the system's.
        package var caFile: String?
        /// PEM files of the client's certificate and its key, both or neither.
        package var certificateFile: String?
        package var keyFile: String?
        /// The time after which the worker treats a call to Redis without a reply as failed. 10...60,000.
        package var responseTimeoutMilliseconds = 1_000
        /// The number of replicas that must acknowledge a registration or a held state before the worker treats it as
        /// stored. So a failover does not lose it. If too few replicas acknowledge for 10 s, the worker continues
        /// without them. 0...16.
        package var replicas = 0
        /// If Redis has lost all its data, workers read commands again that are at most this old. The default is the
        /// longest time that an activity lives, 12 hours. 1...720.
        package var rereadMinutes = 720
    }

    /// The APNs hosts and the connections to them.
    package struct APNs: Sendable {
        package struct Endpoint: Sendable {
            package var host: String
            /// The port of `host`, 1...65,535.
            package var port = 443
            /// The host that manages broadcast channels.
            package var managementHost: String
            /// The port of `managementHost`, 1...65,535.
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
        /// PEM file with the certificate authorities that the worker trusts for APNs' certificate; nil: the system's.
        package var caFile: String?
        /// File with the key that encrypts provider tokens in Redis: 32 bytes, or their Base64. All workers of a fleet
        /// use the same key and so share their tokens, because Apple asks for few tokens. If nil, each worker signs its
        /// own tokens.
        package var sharedTokenKeyFile: String?
        /// The maximum number of HTTP/2 connections that each lane opens for each app and environment. A lane
        /// opens fewer if it has few pushes. 1...16.
        package var connectionsPerPool = 2
        /// The maximum number of requests in flight on one connection. APNs' own limit applies if it is lower. At a
        /// round trip of 60 ms, 1,000 of them carry 16,000 pushes a second (Measurements.md). 1...4,096.
        package var inFlightPerConnection = 1_000
        /// The longest time from sending a request to its response. After this time, the worker treats the
        /// response as lost. 100...60,000.
        package var requestTimeoutMilliseconds = 10_000
        /// The limit for name look-up, TCP and TLS together. 100...60,000.
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
            /// APNs stores no message, and allows a higher rate of messages.
            case none
            /// APNs stores the newest message, for at most 8 h.
            case newest
        }

        /// The audiences that get a channel: ids, or the beginning of ids followed by `*`. Any other audience
        /// gets a channel when a command asks for one, or by `causeway channels create`.
        package var audiences: [String] = []
        package var storage = Storage.newest
        /// The shortest time from the end of an audience to the deletion of its channel. After the deletion its
        /// subscribers get nothing more. 0...2,592,000.
        package var keepSeconds = 3_600
        /// The environments in which audiences get channels. Each channel belongs to one environment. Not empty,
        /// without repetition.
        package var environments = [APNsEnvironment.production]
    }

    /// The check of an app's commands against its contract: the JSON that its phones can decode. APNs accepts any JSON,
    /// but a phone shows nothing if it cannot decode it.
    package struct Shapes: Sendable {
        package enum Mode: String, Sendable, CaseIterable {
            /// A command that no phone could decode is invalid.
            case refuse
            /// A command that no phone could decode is sent, counted and logged.
            case warn
        }

        /// The file of the app's shapes; nil: commands are not checked.
        package var file: String?
        package var mode = Mode.refuse
    }

    /// One app, and the key that signs its provider tokens.
    package struct App: Sendable {
        /// The name under `apps` in the file. Used in logs, metrics, the status page, messages about faults and the
        /// names of environment variables. Records name the app by `bundleId`.
        package let name: String
        package var bundleId = ""
        /// The id of the developer team: ten characters from Apple.
        package var teamId = ""
        /// The id of the signing key: ten characters from Apple. It is the `kid` of the provider token.
        package var keyId = ""
        /// The `.p8` file: a P-256 private key as PKCS #8 in PEM.
        package var keyFile = ""
        /// The environments for which the app has tokens. Workers open connections only for these. Not empty, without
        /// repetition.
        package var environments = APNsEnvironment.allCases
        /// The id of a signing key for the sandbox only, because Apple ties new keys to one environment. Nil: `keyId`
        /// is used in the sandbox too. Set both `sandboxKeyId` and `sandboxKeyFile`, or neither.
        package var sandboxKeyId: String?
        package var sandboxKeyFile: String?
        /// The policy of commands that name no policy.
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
        /// The number of threads that send commands; 0 for as many as the processors that the process may
        /// use. 0...256.
        package var lanes = 0
        /// The longest time that a worker takes to stop, from the signal to its end. It includes the wait for commands
        /// in progress and the time for leaving the consumer group. The default is below Kubernetes' default grace
        /// period of 30 s. 0...600,000.
        package var drainMilliseconds = 20_000
        /// The maximum memory that the process may use. 0 means 85 % of its control group's limit. Without such a limit
        /// it means 1,024, or what `causeway plan` computes for the lanes if that is more. 0...1,048,576.
        package var memoryMebibytes = 0
        /// The maximum number of records (commands and registrations) in a lane's memory. A record leaves the memory
        /// when it is settled. A full lane takes no more records. (R4) 64...4,194,304.
        package var commandsPerLane = 131_072
        /// If APNs could not take a push, for example because of a 503 or a lost connection, the push is sent again
        /// after at most this time. The default is minutes, because Apple asks for that after a 500 or 503.
        /// 1,000...3,600,000.
        package var retryMillisecondsMax = 300_000
        /// How long a command that cannot be sent soon stays in memory before it is deferred, so that no offset waits
        /// behind it. The default is longer than a short interruption. 100...600,000.
        package var deferAfterMilliseconds = 10_000
        /// A deferred command is read again after this time, or earlier if the connections to an APNs host work
        /// again. The defaults of this key and of `deferAfterMilliseconds` make sure that offsets are settled within
        /// a minute. 100...600,000.
        package var deferredDelayMilliseconds = 30_000
        /// If the partitions of a lane have more unread commands than this together, the lane reads ahead before it
        /// admits any command. So a backlog usually costs one push for each activity. 1...1,000,000,000.
        package var readAheadLagRecords = 10_000
        /// The longest time that a lane reads ahead before it begins to admit. It has a limit, because the lane begins
        /// no command meanwhile. 1...600,000.
        package var readAheadMillisecondsMax = 30_000
    }

    /// The share of records that are traced, and the collector of the traces.
    package struct Tracing: Sendable {
        /// A collector's base URL, for OTLP over HTTP, with or without TLS. Nil exports nothing.
        package var endpoint: String?
        /// PEM file with the certificate authorities that the worker trusts for the collector's certificate; nil: the
        /// system's.
        package var caFile: String?
        /// File with the headers that the collector requires, one `Name: value` per line. Read again for each
        /// request, so that a credential can be replaced.
        package var headersFile: String?
        /// How many of a million commands without a `traceparent` get a trace. 0...1,000,000.
        package var samplesPerMillion = 0
    }
}
