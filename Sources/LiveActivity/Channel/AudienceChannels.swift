/// A broadcast channel in one of Apple's two environments. Usually Causeway created it for an audience. But a producer
/// can also manage its own channel, and name it in commands.
public struct AudienceChannel: Sendable, Hashable, BitwiseCopyable {
    public var environment: APNsEnvironment
    public var storage: ChannelStoragePolicy
    public var identifier: ChannelIdentifier

    public init(environment: APNsEnvironment, storage: ChannelStoragePolicy, identifier: ChannelIdentifier) {
        self.environment = environment
        self.storage = storage
        self.identifier = identifier
    }

    /// Where the channel's id begins in a field of Redis. Before it are the storage policy (one byte) and the time of
    /// the channel's creation (eight bytes).
    private static let identifierByteOffset = 9

    /// Reads an audience's channel from a field of the audience's hash in Redis; nil if the field is invalid.
    public init?(field: UnsafeRawBufferPointer, environment: APNsEnvironment) {
        guard field.count > Self.identifierByteOffset, let storage = ChannelStoragePolicy(rawValue: field[0]),
            let identifier = ChannelIdentifier(UnsafeRawBufferPointer(rebasing: field[Self.identifierByteOffset...]))
        else { return nil }
        self.init(environment: environment, storage: storage, identifier: identifier)
    }
}

/// The channels of an audience, or the channel that a command names: at most one in each environment.
public struct AudienceChannels: Sendable, Equatable, BitwiseCopyable {
    public var production: AudienceChannel?
    public var sandbox: AudienceChannel?

    public init(production: AudienceChannel? = nil, sandbox: AudienceChannel? = nil) {
        self.production = production
        self.sandbox = sandbox
    }

    public subscript(environment: APNsEnvironment) -> AudienceChannel? {
        environment == .production ? production : sandbox
    }

    public var count: Int { (production == nil ? 0 : 1) + (sandbox == nil ? 0 : 1) }
}
