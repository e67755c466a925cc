public import LiveActivity

/// What the core needs of whoever keeps channels. It names the audience, which the keeper knows and the core does not keep.
public struct ChannelNeed: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// A command to the audience was admitted, and the audience is to have a channel.
        case wanted
        /// The audience's end was admitted. APNs may deliver a stored message until then, UNIX milliseconds; 0: none is stored.
        case ended(storedUntilMilliseconds: Int64)
        /// APNs does not know the channel any more.
        case lost(AudienceChannel)
    }

    public var kind: Kind
    public var application: UInt16
    public var audience: [UInt8]
}

/// Which audiences of an app get a channel without being asked for, and where any audience gets one.
public struct ChannelRule: Sendable {
    /// A `*` at the end stands for whatever follows.
    private let patterns: [[UInt8]]
    private let environments: [DeviceEnvironment]

    public init(patterns: [String], environments: [DeviceEnvironment]) {
        self.patterns = patterns.map { Array($0.utf8) }
        self.environments = environments
    }

    func includes(_ audience: UnsafeRawBufferPointer) -> Bool {
        patterns.contains { pattern in
            pattern.last == UInt8(ascii: "*")
                ? audience.starts(with: pattern.dropLast()) : audience.elementsEqual(pattern)
        }
    }

    /// Environments in which an audience with these channels lacks one, a bit each (`DeviceEnvironment.rawValue`).
    func missing(in channels: AudienceChannels) -> UInt8 {
        environments.reduce(0) { channels[$1] == nil ? $0 | 1 << $1.rawValue : $0 }
    }
}
