import Reactor
import Redis

extension RedisConfiguration {
    /// Makes the settings of the Redis client from the keys of `redis`, and reads the files that the keys name.
    package init(_ configuration: WorkerConfiguration.Redis) throws {
        let url = try Self.makeURL(configuration.url, passwordFile: configuration.passwordFile)
        var topology = RedisTopology.single
        var usesTLS = url.usesTLS
        switch configuration.mode {
        case .single:
            break
        case .sentinel:
            let sentinels = try Self.makeURL(
                configuration.sentinelURL ?? "",
                defaultPort: RedisURL.defaultSentinelPort,
                passwordFile: configuration.sentinelPasswordFile
            )
            topology = .sentinel(sentinels)
            usesTLS = usesTLS || sentinels.usesTLS
        case .cluster:
            topology = .cluster
        }
        self.init(url: url, topology: topology)
        if usesTLS {
            tls = try TLSContext.client(
                caFile: configuration.caFile,
                applicationProtocols: [],
                certificateFile: configuration.certificateFile,
                keyFile: configuration.keyFile
            )
        }
        replyDeadlineMilliseconds = Int64(configuration.responseTimeoutMilliseconds)
        requiredReplicaCount = configuration.replicas
    }

    /// The addresses of Redis or of its Sentinels, without credentials.
    package var addresses: String {
        if case .sentinel(let sentinels) = topology { return "\(sentinels)" }
        return "\(url)"
    }

    private static func makeURL(
        _ text: String,
        defaultPort: UInt16 = RedisURL.defaultPort,
        passwordFile: String?
    ) throws -> RedisURL {
        var url = try RedisURL(text, defaultPort: defaultPort)
        if let passwordFile {
            let password = try SecretFile.readPassword(passwordFile)
            url.credentials = RedisCredentials(username: url.credentials?.username, password: password)
        }
        return url
    }
}
