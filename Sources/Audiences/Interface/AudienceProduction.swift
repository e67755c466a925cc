public import LiveActivity

/// A record to be produced. Its delivery report is handed back as `produced`.
public struct AudienceProduction: Sendable, Equatable, BitwiseCopyable {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        /// One range of a command, to the fan-out topic.
        case fanout
        /// What became of one range.
        case rangeResult
        /// What became of a command in all its ranges.
        case commandResult
        /// A member whose push was refused.
        case memberResult
        case invalidation
        /// A start of one device, to the commands topic: `index` names its page and its place there.
        case start
        /// What became of a broadcast.
        case broadcastResult
        /// What became of a command in all its ranges and broadcasts, where a broadcast was the last of them.
        case broadcastTotals
    }

    public var kind: Kind
    /// Of a fan-out record: which range, or ``broadcastRange`` and above it the channel's environment.
    public var range: UInt16
    static let broadcastRange: UInt16 = 0x400
    public var index: UInt32

    /// Tells the tag from those of the core of single activities.
    private static let marker: UInt64 = 1 << 47

    init(kind: Kind, range: UInt16 = 0, index: UInt32) {
        self.kind = kind
        self.range = range
        self.index = index
    }

    /// Of a fan-out record for a channel.
    var environment: DeviceEnvironment? {
        guard kind == .fanout, range >= Self.broadcastRange else { return nil }
        return range == Self.broadcastRange ? .production : .sandbox
    }

    /// 48 bits.
    public var tag: UInt64 {
        Self.marker | UInt64(kind.rawValue) << 43 | UInt64(range) << 32 | UInt64(index)
    }

    /// - Returns: nil if this core makes no such tag.
    public init?(tag: UInt64) {
        guard tag & Self.marker != 0, let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 43 & 0xF)) else {
            return nil
        }
        self.init(
            kind: kind,
            range: UInt16(truncatingIfNeeded: tag >> 32 & 0x7FF),
            index: UInt32(truncatingIfNeeded: tag)
        )
    }
}

/// A record as it is to be produced; its bytes are valid until the next call that changes the core.
public struct ComposedRecord {
    public var key: UnsafeRawBufferPointer
    public var value: UnsafeRawBufferPointer
    /// Of a fan-out record: what its headers say.
    public var order: FanoutOrder?
    /// As received beside the command; empty for none.
    public var trace: UnsafeRawBufferPointer
}
