/// What a simulator is told at its start.
public struct SimulatorConfiguration: Sendable {
    /// How clients reach the service.
    public enum Security: Sendable {
        /// TLS with this certificate, PEM.
        case certificate(certificateFile: String, keyFile: String)
        /// TLS with a certificate of a certificate authority that is made for the purpose; its file is `ca.pem` in this directory,
        /// or as `Simulator.caFile` says.
        case selfSigned(directory: String)
        /// HTTP/2 without TLS, for profiling.
        case cleartext
    }

    /// A key that provider tokens may be signed with.
    public struct Key: Sendable {
        public var teamIdentifier: String
        public var keyIdentifier: String
        /// A public key, or a `.p8`, PEM.
        public var pem: String
        /// Nil: good for production and sandbox, as Apple's older keys are.
        public var environment: Environment?

        public init(teamIdentifier: String, keyIdentifier: String, pem: String, environment: Environment? = nil) {
            self.teamIdentifier = teamIdentifier
            self.keyIdentifier = keyIdentifier
            self.pem = pem
            self.environment = environment
        }
    }

    public struct Limits: Sendable {
        /// SETTINGS_MAX_CONCURRENT_STREAMS until the first valid provider token.
        public var streamsBeforeAuthentication: UInt32 = 1
        /// SETTINGS_MAX_CONCURRENT_STREAMS after it.
        public var concurrentStreams: UInt32 = 1_000
        /// Connections at one time; more are closed as they come.
        public var connections = 4_096
        /// Requests under way at one time, on all connections of a thread; more are refused (REFUSED_STREAM).
        public var requestsPerThread = 262_144

        public init() {}
    }

    /// A numeric address.
    public var host = "127.0.0.1"
    /// 0: the system chooses.
    public var port: UInt16 = 0
    /// Port of the service that manages channels, on the same address; 0: the system chooses.
    public var managementPort: UInt16 = 0
    /// Port of the HTTP interface, on 127.0.0.1; 0: the system chooses; nil: no interface.
    public var interfacePort: UInt16? = 0
    public var security: Security
    public var keys: [Key]
    public var environment = Environment.production
    /// Threads that serve requests. With one, no push takes a lock.
    public var threads = 1
    public var limits = Limits()
    public var faults = Faults()
    public var rules = DeviceRules()
    public var channelRules = ChannelRules()
    /// A file that every push is written to, a line of JSON each; nil: none. It is overwritten at the start, and grows by some 400 bytes a push.
    public var pushLog: String?
    /// Of the generator behind tokens, identifiers and faults; nil: another at each start.
    public var seed: UInt64?

    public init(security: Security, keys: [Key]) {
        self.security = security
        self.keys = keys
    }
}

/// Why a simulator did not start, or did not do what it was asked.
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
        case .tooMany(let what): self.init(.limitReached, "too many \(what)")
        case .unknownCrowd(let name): self.init(.notFound, "no crowd \(name)")
        case .crowdExists(let name): self.init(.conflict, "crowd \(name) exists")
        case .unknownChannel(let name): self.init(.notFound, "no channel \(name)")
        }
    }
}
