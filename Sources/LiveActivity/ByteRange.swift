/// A part of a record or of a body: the position of its first byte, and its length.
///
/// A range is valid only together with the bytes from which it was taken. It is within their bounds, because ranges are
/// made only from positions that a decoder has read or a writer has written.
@frozen
public struct ByteRange: Equatable, Sendable, BitwiseCopyable {
    /// The position of the first byte in the record or body. `UInt32.max`: the range is absent.
    public var offset: UInt32
    /// The length in bytes.
    public var count: UInt32

    @inlinable
    public init(offset: UInt32, count: UInt32) {
        self.offset = offset
        self.count = count
    }

    /// The range of a part that the record does not have. It is not the same as an empty range, which has a position.
    public static let absent = ByteRange(offset: .max, count: 0)

    @inlinable
    public var isAbsent: Bool { offset == .max }

    /// The position after the last byte.
    @inlinable
    public var end: Int { Int(offset) + Int(count) }

    /// Returns the bytes of the range; none for an absent range.
    ///
    /// - Parameter record: the record or body from which the range was taken, or a copy of it.
    @inlinable @inline(__always)
    public func bytes(in record: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        if isAbsent { return UnsafeRawBufferPointer(start: nil, count: 0) }
        precondition(end <= record.count, "the range is of another record")
        return UnsafeRawBufferPointer(rebasing: record[Int(offset)..<end])
    }
}

extension ByteRange {
    /// Creates the range between two positions. Both fit into 32 bits, because a record or body has at most
    /// ``Limits/recordBytesMax`` bytes.
    @inline(__always)
    init(from start: Int, to end: Int) {
        assert(start >= 0 && start <= end && end <= Limits.recordBytesMax)
        self.init(offset: UInt32(truncatingIfNeeded: start), count: UInt32(truncatingIfNeeded: end &- start))
    }

    /// Returns a range of the same length that begins `distance` bytes later. An absent range stays absent.
    @inline(__always)
    func moved(by distance: Int) -> ByteRange {
        isAbsent ? self : ByteRange(from: Int(offset) &+ distance, to: end &+ distance)
    }
}

/// A JSON string of a record: the bytes between its quotes.
@frozen
public struct TextRange: Equatable, Sendable, BitwiseCopyable {
    public var range: ByteRange
    /// Whether the bytes contain escapes. ``unescape(_:from:into:)`` then gives fewer bytes than the range has.
    public var isEscaped: Bool

    @inlinable
    public init(range: ByteRange, isEscaped: Bool) {
        self.range = range
        self.isEscaped = isEscaped
    }

    public static let absent = TextRange(range: .absent, isEscaped: false)

    @inlinable
    public var isAbsent: Bool { range.isAbsent }
}
