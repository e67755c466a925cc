import Reactor

public struct SimulatorConfiguration: Sendable {
    /// Whether the connections between clients and the service have TLS, and with which certificate.
    public enum TransportSecurity: Sendable {
        /// TLS with this certificate; both files are PEM.
        case certificate(certificateFile: String, keyFile: String)
        /// TLS with a certificate from a certificate authority that the simulator makes. The authority's file is
        /// `ca.pem` in this directory (`Simulator.caFile`).
        case selfSigned(directory: String)
        /// HTTP/2 without TLS, for profiling.
        case cleartext
    }

    /// A key that may sign provider tokens.
    public struct Key: Sendable {
        public var teamId: String
        public var keyId: String
        /// The public key, or the private key of a `.p8` file, as PEM text.
        public var pem: String
        /// The environment in which the key is valid. Nil: production and sandbox, like Apple's older keys.
        public var environment: Environment?

        public init(teamId: String, keyId: String, pem: String, environment: Environment? = nil) {
            self.teamId = teamId
            self.keyId = keyId
            self.pem = pem
            self.environment = environment
        }
    }

    public struct Limits: Sendable {
        /// How many streams a connection may have open (SETTINGS_MAX_CONCURRENT_STREAMS) before its first valid
        /// provider token. APNs allows one.
        public var streamsBeforeAuthenticationMax: UInt32 = 1
        /// How many streams a connection may have open (SETTINGS_MAX_CONCURRENT_STREAMS) with a valid provider token;
        /// ``Faults/concurrentStreams`` overrides it. Apple promises no number, because it varies with the load.
        public var concurrentStreamsMax: UInt32 = 1_000
        /// The maximum number of connections of a thread. Further connections are closed at once.
        public var connectionsPerThreadMax = 4_096
        /// The maximum number of requests in flight on all connections of a thread. Further requests are refused
        /// (REFUSED_STREAM).
        public var requestsPerThreadMax = 262_144

        public init() {}
    }

    /// The numeric address on which the services listen.
    public var host = "127.0.0.1"
    /// Port of the service that takes pushes; 0: the system chooses.
    public var port: UInt16 = 0
    /// Port of the service that manages channels, on the same address; 0: the system chooses.
    public var managementPort: UInt16 = 0
    /// Port of the HTTP control interface, on 127.0.0.1; 0: the system chooses; nil: no interface.
    public var controlPort: UInt16? = 0
    public var transportSecurity: TransportSecurity
    public var keys: [Key]
    public var environment = Environment.production
    /// The number of threads that serve requests, 1 to 64. With one thread, no push takes a lock.
    public var threadCount = 1
    public var limits = Limits()
    public var faults = Faults()
    public var rules = DeviceRules()
    public var channelRules = ChannelRules()
    /// The path of a file to which every push and broadcast is written as a line of JSON; nil: none is written. The
    /// start overwrites the file. A line has about 400 bytes.
    public var pushLogFile: String?
    /// The seed of the random tokens, channel ids, response ids and faults; nil: a random seed. After
    /// `Simulator.reset`, the tokens and channel ids begin again from the seed; the response ids and faults do not.
    public var seed: UInt64?

    public init(transportSecurity: TransportSecurity, keys: [Key]) {
        self.transportSecurity = transportSecurity
        self.keys = keys
    }
}

/// Why a simulator did not start, or did not carry out a request.
public struct SimulatorError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable {
        case invalidConfiguration, cannotListen, notRunning, invalidRequest, notFound, conflict, limitReached
    }

    public var code: Code
    public var reason: String
    public var description: String { "\(code.rawValue): \(reason)" }

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Makes the error for an address on which a service or the control interface cannot listen.
    init(_ address: SocketAddress, _ error: SystemError) {
        self.init(.cannotListen, "cannot listen on \(address): \(error.reason)")
    }

    init(_ fault: DeviceModel.Fault) {
        switch fault {
        case .unknownApp(let name): self.init(.notFound, "no app \(name)")
        case .unknownDevice(let name): self.init(.notFound, "no device \(name)")
        case .unknownActivity(let name): self.init(.notFound, "no activity \(name)")
        case .unknownAttributesType(let name): self.init(.notFound, "no attributes type \(name)")
        case .appExists(let name): self.init(.conflict, "app \(name) exists")
        case .deviceExists(let name): self.init(.conflict, "device \(name) exists")
        case .contentDoesNotDecode(let problem): self.init(.invalidRequest, problem)
        case .activityIsOver(let name): self.init(.conflict, "activity \(name) is over")
        case .tooMany(let nouns): self.init(.limitReached, "too many \(nouns)")
        case .unknownCrowd(let name): self.init(.notFound, "no crowd \(name)")
        case .crowdExists(let name): self.init(.conflict, "crowd \(name) exists")
        case .unknownChannel(let name): self.init(.notFound, "no channel \(name)")
        case .broadcastsAreOff(let name): self.init(.conflict, "app \(name) has no capability for broadcasts")
        }
    }
}
