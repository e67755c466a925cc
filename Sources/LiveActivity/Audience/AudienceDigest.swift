/// An audience in the store and in the fan-out topic: 64 bits of its id's digest. The app stands beside it. That two audiences of an app
/// meet in it is one chance in 10¹⁰ for 60,000 of them.
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
    /// Of a channel that a producer keeps, whose commands are admitted as those of an audience without members. No audience's id is digested as
    /// two parts.
    ///
    /// - Parameter channel: the channel's id.
    public init(ofChannel channel: UnsafeRawBufferPointer, in environment: DeviceEnvironment) {
        var digest = Digest()
        let environment: StaticString = environment.name
        digest.add(UnsafeRawBufferPointer(start: environment.utf8Start, count: environment.utf8CodeUnitCount))
        digest.add(channel)
        value = digest.value
    }
}

/// Where a member stands in its audience: one of 256 segments, and a position in the order within the segment. It depends on the member's id
/// alone, so it survives restarts, failovers, resharding and growth.
public struct MemberPlace: Sendable, Hashable, BitwiseCopyable, Comparable {
    /// Segments of an audience.
    public static let segmentCount = 256
    /// Positions of one segment.
    public static let positionsPerSegment: UInt64 = 1 << 32

    public var segment: UInt8
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

    /// Counted through all segments: 0..<2⁴⁰.
    public var ordinal: UInt64 { UInt64(segment) << 32 | UInt64(position) }

    public init(ordinal: UInt64) {
        segment = UInt8(truncatingIfNeeded: ordinal >> 32)
        position = UInt32(truncatingIfNeeded: ordinal)
    }

    public static func < (left: MemberPlace, right: MemberPlace) -> Bool { left.ordinal < right.ordinal }
}

/// A range of consecutive segments: one of equal parts of an audience, whose number is a power of two.
public struct SegmentRange: Sendable, Hashable, BitwiseCopyable {
    /// 0..<`count`.
    public var index: UInt16
    /// How many ranges the audience is divided into: 1, 2, 4, … 256.
    public var count: UInt16

    /// Nil if the two are not within their bounds.
    public init?(index: Int, count: Int) {
        guard (1...MemberPlace.segmentCount).contains(count), count & (count - 1) == 0, (0..<count).contains(index)
        else {
            return nil
        }
        self.index = UInt16(index)
        self.count = UInt16(count)
    }

    public var segmentCount: Int { MemberPlace.segmentCount / Int(count) }
    public var firstSegment: Int { Int(index) * segmentCount }
    /// Ordinals of ``MemberPlace`` in the range.
    public var ordinals: Range<UInt64> {
        UInt64(firstSegment) << 32..<UInt64(firstSegment + segmentCount) << 32
    }
}
