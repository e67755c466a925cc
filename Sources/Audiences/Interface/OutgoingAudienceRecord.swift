import Delivery
public import LiveActivity

/// A record to be produced. The shell reports its delivery through ``Audiences/handleDeliveryReport(_:_:now:)``.
public struct OutgoingAudienceRecord: Sendable, Equatable, RefusableRecord {
    public enum Kind: UInt8, Sendable, BitwiseCopyable {
        /// A command for the members of one range (``SegmentRange``), or for one channel. It goes to the fan-out topic.
        case fanout
        /// The result of a command in one range.
        case rangeResult
        /// The result of a command over all its ranges and broadcasts, written when a range is the last of them to end.
        case commandResult
        /// The result of one member whose push was refused.
        case memberResult
        case invalidation
        /// A command that starts an activity on one device. It goes to the commands topic.
        case start
        /// The result of one broadcast of a command.
        case broadcastResult
        /// The result of a command over all its ranges and broadcasts, written when a broadcast is the last of them to
        /// end.
        case commandResultAfterBroadcast
    }

    public let kind: Kind
    /// How often Kafka has refused this record as too large.
    package private(set) var refusalCount: UInt8 = 0
    /// For a fan-out record: the index of its range (0 to 255). For the record of a broadcast: ``channelNumberBase``
    /// plus the raw value of the channel's environment.
    public let rangeOrChannelNumber: UInt16
    /// The lowest number that stands for a channel. It is above 255, the highest index of a range, and so low that a
    /// ``tag`` needs only nine bits for ``rangeOrChannelNumber``.
    static let channelNumberBase: UInt16 = 0x100
    /// The index of the slot that the record is about. ``kind`` determines the table of the slot.
    private let rawIndex: UInt32

    /// Only the tags of this core have this bit. It is the highest of the bits that a core may use; the lane's number
    /// is above it (`ProducerTag`).
    private static let audiencesCoreBit: UInt64 = 1 << 47

    private init(_ kind: Kind, rangeOrChannelNumber: UInt16 = 0, _ rawIndex: UInt32) {
        self.kind = kind
        self.rangeOrChannelNumber = rangeOrChannelNumber
        self.rawIndex = rawIndex
    }

    static func fanout(_ command: CommandIndex, rangeOrChannelNumber: UInt16) -> Self {
        Self(.fanout, rangeOrChannelNumber: rangeOrChannelNumber, command.rawValue)
    }
    static func rangeResult(_ rangeVersion: RangeVersionIndex) -> Self { Self(.rangeResult, rangeVersion.rawValue) }
    static func commandResult(_ rangeVersion: RangeVersionIndex) -> Self { Self(.commandResult, rangeVersion.rawValue) }
    static func memberResult(_ refusedMember: RefusedMemberIndex) -> Self {
        Self(.memberResult, refusedMember.rawValue)
    }
    static func invalidation(_ refusedMember: RefusedMemberIndex) -> Self {
        Self(.invalidation, refusedMember.rawValue)
    }
    static func start(_ pageMember: PageMemberIndex) -> Self { Self(.start, pageMember.rawValue) }
    static func broadcastResult(_ broadcast: BroadcastIndex) -> Self { Self(.broadcastResult, broadcast.rawValue) }
    static func commandResultAfterBroadcast(_ broadcast: BroadcastIndex) -> Self {
        Self(.commandResultAfterBroadcast, broadcast.rawValue)
    }

    // The slot that the record is about. Use only the property that fits `kind`.
    var command: CommandIndex { CommandIndex(rawValue: rawIndex) }
    var rangeVersion: RangeVersionIndex { RangeVersionIndex(rawValue: rawIndex) }
    var refusedMember: RefusedMemberIndex { RefusedMemberIndex(rawValue: rawIndex) }
    var pageMember: PageMemberIndex { PageMemberIndex(rawValue: rawIndex) }
    var broadcast: BroadcastIndex { BroadcastIndex(rawValue: rawIndex) }

    /// The environment of the channel, if this is the fan-out record of a broadcast; else nil.
    var environment: APNsEnvironment? {
        guard kind == .fanout, rangeOrChannelNumber >= Self.channelNumberBase else { return nil }
        return rangeOrChannelNumber == Self.channelNumberBase ? .production : .sandbox
    }

    /// The tag for the delivery report, in the lower 48 bits.
    public var tag: UInt64 {
        Self.audiencesCoreBit | UInt64(kind.rawValue) << 44 | UInt64(refusalCount) << 41
            | UInt64(rangeOrChannelNumber) << 32 | UInt64(rawIndex)
    }

    /// Reads a tag; nil if this core makes no such tag.
    public init?(tag: UInt64) {
        guard tag & Self.audiencesCoreBit != 0, let kind = Kind(rawValue: UInt8(truncatingIfNeeded: tag >> 44 & 0x7))
        else {
            return nil
        }
        self.init(
            kind,
            rangeOrChannelNumber: UInt16(truncatingIfNeeded: tag >> 32 & 0x1FF),
            UInt32(truncatingIfNeeded: tag)
        )
        refusalCount = UInt8(truncatingIfNeeded: tag >> 41 & 0x7)
    }

    /// The next attempt after Kafka has refused this one as too large; nil if there were enough.
    var nextAttempt: OutgoingAudienceRecord? {
        guard refusalCount < OutgoingRecord.retriesAfterRefusalMax else { return nil }
        var attempt = self
        attempt.refusalCount += 1
        return attempt
    }
}

/// A record, ready to be produced. Its bytes are valid until the next mutating method of the core is called.
public struct ComposedRecord {
    public var key: UnsafeRawBufferPointer
    public var value: UnsafeRawBufferPointer
    /// The contents of a fan-out record's headers; nil for any other record.
    public var fanoutInstruction: FanoutInstruction?
    /// The trace that was received with the command; empty for none.
    public var trace: UnsafeRawBufferPointer
    /// For a fan-out record: the names of the fields that were dropped because the body was too large; empty for none.
    public var droppedFields = UnsafeRawBufferPointer(start: nil, count: 0)
}
