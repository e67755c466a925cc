import Delivery

/// A push to one member, or a broadcast.
///
/// The address is valid until the next mutating method of the core is called; the body is valid until the push has its
/// response.
public struct AudiencePush {
    /// Names the push in its response. Its highest bit is set, unlike in the tags of `Delivery`.
    public var tag: UInt64
    /// The token in hexadecimal digits; for a broadcast, the channel's id.
    public var address: UnsafeRawBufferPointer
    public var isBroadcast = false
    public var body: UnsafeRawBufferPointer
    /// The priority for APNs: 5 or 10.
    public var priority: UInt8
    /// Until when APNs keeps the push, UNIX seconds. 0: APNs does not keep it.
    public var expirationSeconds: Int64
    public var apnsId: (UInt64, UInt64)
    /// Whether an earlier attempt for the member or the broadcast failed. The push then counts against the pool's
    /// budget for retries. (R21)
    public var isRetry: Bool
}

/// Identifies a push in APNs' response: a broadcast, or a push to a member. The member is on a page, is parked, or has
/// just joined.
struct PushTag: BitwiseCopyable {
    /// Every tag of this core has this bit, and no tag of the core for single activities has it. So a lane knows to
    /// which core a response belongs.
    static let audiencesCoreBit: UInt64 = 1 << 63
    private static let parkedBit: UInt64 = 1 << 62
    private static let joinerBit: UInt64 = 1 << 61
    private static let broadcastBit: UInt64 = 1 << 60

    let rawValue: UInt64

    init(page: PageIndex, memberIndex: Int) {
        rawValue = Self.audiencesCoreBit | UInt64(page.rawValue) << 16 | UInt64(memberIndex)
    }
    init(parkedMember: ParkedMemberIndex) {
        rawValue = Self.audiencesCoreBit | Self.parkedBit | UInt64(parkedMember.rawValue)
    }
    init(joiner: MembershipChangeIndex) { rawValue = Self.audiencesCoreBit | Self.joinerBit | UInt64(joiner.rawValue) }
    init(broadcast: BroadcastIndex) {
        rawValue = Self.audiencesCoreBit | Self.broadcastBit | UInt64(broadcast.rawValue)
    }
    init(rawValue: UInt64) { self.rawValue = rawValue }

    var isParked: Bool { rawValue & Self.parkedBit != 0 }
    var isJoiner: Bool { rawValue & Self.joinerBit != 0 }
    var isBroadcast: Bool { rawValue & Self.broadcastBit != 0 }
    var broadcast: BroadcastIndex { BroadcastIndex(rawValue: lowerBits) }
    var joiner: MembershipChangeIndex { MembershipChangeIndex(rawValue: lowerBits) }
    var parkedMember: ParkedMemberIndex { ParkedMemberIndex(rawValue: lowerBits) }
    var page: PageIndex { PageIndex(rawValue: UInt32(truncatingIfNeeded: rawValue >> 16)) }
    var memberIndex: Int { Int(rawValue & 0xFFFF) }
    private var lowerBits: UInt32 { UInt32(truncatingIfNeeded: rawValue) }
}
