public import LiveActivity

/// The core's request to the worker's `ChannelKeeper` about an audience's channels.
public struct CoreChannelRequest: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// The keeper creates the channels that the audience should have and lacks. If the audience has channels whose
        /// deletion is planned, the keeper cancels the deletion. Sent when a start or an update to the audience was
        /// admitted and a channel is missing, or when a start was admitted and the audience has channels.
        case wanted
        /// The audience's end was admitted, so the keeper plans the deletion of the audience's channels. If the store
        /// has lost the channels, the keeper restores them.
        ///
        /// The channels must exist until `storedUntilWallMilliseconds` (UNIX milliseconds), because APNs may deliver a
        /// stored message until then. 0: APNs stores none.
        case ended(storedUntilWallMilliseconds: Int64)
        /// The store may have lost the audience's channels: the keeper looks for them, and writes those that exist into
        /// the audience's hash. It creates none.
        case sought
        /// APNs says that this channel does not exist: the keeper replaces it by a new channel.
        case lost(AudienceChannel)
    }

    public var kind: Kind
    public var appIndex: UInt16
    public var audience: [UInt8]
}

/// Which audiences of an app get channels even if no command requests one, and in which environments.
public struct AudienceChannelRule: Sendable {
    /// Audience ids. A pattern that ends with `*` matches every id that begins with the text before the `*`.
    private let patterns: [[UInt8]]
    private let environments: [APNsEnvironment]

    public init(patterns: [String], environments: [APNsEnvironment]) {
        self.patterns = patterns.map { Array($0.utf8) }
        self.environments = environments
    }

    func includes(_ audience: UnsafeRawBufferPointer) -> Bool {
        patterns.contains { pattern in
            pattern.last == UInt8(ascii: "*")
                ? audience.starts(with: pattern.dropLast()) : audience.elementsEqual(pattern)
        }
    }

    /// Returns the environments of this rule in which the audience has no channel. Bit `n` of the result stands for the
    /// environment with the raw value `n`. Does not check whether the audience should have channels.
    func missingEnvironmentBits(in channels: AudienceChannels) -> UInt8 {
        environments.reduce(0) { channels[$1] == nil ? $0 | 1 << $1.rawValue : $0 }
    }
}
