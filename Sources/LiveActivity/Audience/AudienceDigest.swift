/// The name of an audience in Redis and in the fan-out topic: a 64-bit digest of the audience's id. A channel that a
/// producer manages has such a name too.
///
/// Names need to differ only within an app, because they are always used together with the app's bundle id. Even among
/// 60,000 audiences of one app, the probability of two equal digests is 10⁻¹⁰.
public struct AudienceDigest: Sendable, Hashable, BitwiseCopyable {
    public var value: UInt64

    public init(value: UInt64) { self.value = value }

    /// - Parameter identifier: the audience's id, unescaped UTF-8.
    public init(of identifier: UnsafeRawBufferPointer) {
        var digest = Digest()
        digest.add(identifier)
        value = digest.value
    }
}

extension AudienceDigest {
    /// Makes the name of a broadcast channel that a producer manages: to Redis, such a channel is an audience without
    /// members. The name also depends on the environment, so it differs from the name of an audience with the same id.
    ///
    /// - Parameter channel: the channel's id.
    public init(ofChannel channel: UnsafeRawBufferPointer, in environment: APNsEnvironment) {
        var digest = Digest()
        let environment: StaticString = environment.name
        digest.add(UnsafeRawBufferPointer(start: environment.utf8Start, count: environment.utf8CodeUnitCount))
        digest.add(channel)
        value = digest.value
    }
}

/// A member's place in its audience: one of 256 segments, and a position within the segment. The place depends only on
/// the member's id, so restarts, failovers, resharding and growth do not change it.
public struct MemberLocation: Sendable, Hashable, BitwiseCopyable, Comparable {
    /// The number of segments of an audience. More segments would let more lanes share a large audience. But a small
    /// audience would cost more reads, because a round reads a page of each segment (Measurements.md).
    public static let segmentCount = 256
    /// The number of positions in a segment: 2^32, because a member's position has 32 bits.
    public static let positionsPerSegment: UInt64 = 1 << 32

    public var segment: UInt8
    /// The place within the segment, 0..<2³².
    public var position: UInt32

    public init(segment: UInt8, position: UInt32) {
        self.segment = segment
        self.position = position
    }

    /// - Parameter identifier: the id of the member's activity or device, unescaped UTF-8.
    public init(of identifier: UnsafeRawBufferPointer) {
        var digest = Digest()
        digest.add(identifier)
        segment = UInt8(truncatingIfNeeded: digest.value >> 32)
        position = UInt32(truncatingIfNeeded: digest.value)
    }

    /// The member's position counted across all segments: 0..<2⁴⁰.
    public var ordinal: UInt64 { UInt64(segment) << 32 | UInt64(position) }

    public init(ordinal: UInt64) {
        segment = UInt8(truncatingIfNeeded: ordinal >> 32)
        position = UInt32(truncatingIfNeeded: ordinal)
    }

    public static func < (left: MemberLocation, right: MemberLocation) -> Bool { left.ordinal < right.ordinal }
}

/// A range of consecutive segments: one of ``rangeCount`` equal parts of an audience.
public struct SegmentRange: Sendable, Hashable, BitwiseCopyable {
    /// The index of this range: 0..<`rangeCount`.
    public var index: UInt16
    /// The number of ranges of the audience: 1, 2, 4, … 256.
    public var rangeCount: UInt16

    /// Nil if `rangeCount` is not a power of two up to 256, or if `index` is not below `rangeCount`.
    public init?(index: Int, rangeCount: Int) {
        guard (1...MemberLocation.segmentCount).contains(rangeCount), rangeCount & (rangeCount - 1) == 0,
            (0..<rangeCount).contains(index)
        else {
            return nil
        }
        self.index = UInt16(index)
        self.rangeCount = UInt16(rangeCount)
    }

    public var segmentCount: Int { MemberLocation.segmentCount / Int(rangeCount) }
    public var firstSegment: Int { Int(index) * segmentCount }
    /// The values of ``MemberLocation/ordinal`` that belong to the range.
    public var ordinals: Range<UInt64> {
        UInt64(firstSegment) << 32..<UInt64(firstSegment + segmentCount) << 32
    }
}
