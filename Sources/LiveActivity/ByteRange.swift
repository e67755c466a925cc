/// Bytes of a record, by place: what a decoded command holds instead of copies.
///
/// A range is meaningful only together with the record it was taken from, and in bounds of it by construction: only the
/// decoders make ranges, from positions they have read.
@frozen
public struct ByteRange: Equatable, Sendable, BitwiseCopyable {
    /// Of the first byte, from the record's start. `UInt32.max` says that the range is absent.
    public var offset: UInt32
    /// Bytes.
    public var count: UInt32

    @inlinable
    public init(offset: UInt32, count: UInt32) {
        self.offset = offset
        self.count = count
    }

    /// Says that the record does not hold the thing. Not the same as an empty range, which has a place.
    public static let absent = ByteRange(offset: .max, count: 0)

    @inlinable
    public var isAbsent: Bool { offset == .max }

    /// The position after the last byte.
    @inlinable
    public var end: Int { Int(offset) + Int(count) }

    /// The bytes in `record`, which must be the record that the range was taken from, or a copy of it.
    /// Of an absent range: no bytes.
    @inlinable @inline(__always)
    public func bytes(in record: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        if isAbsent { return UnsafeRawBufferPointer(start: nil, count: 0) }
        precondition(end <= record.count, "a range is read from the record it was taken from")
        return UnsafeRawBufferPointer(rebasing: record[Int(offset)..<end])
    }
}

extension ByteRange {
    /// Positions come from scanning a record, and records are bounded by `Limits.recordBytes`: both fit.
    @inline(__always)
    init(from start: Int, to end: Int) {
        assert(start >= 0 && start <= end && end <= Limits.recordBytes)
        self.init(offset: UInt32(truncatingIfNeeded: start), count: UInt32(truncatingIfNeeded: end &- start))
    }

    /// The same bytes after all of them were moved; what is absent stays so.
    @inline(__always)
    func moved(by distance: Int) -> ByteRange {
        isAbsent ? self : ByteRange(from: Int(offset) &+ distance, to: end &+ distance)
    }
}

/// A JSON string of a record: the bytes between its quotes.
@frozen
public struct TextRange: Equatable, Sendable, BitwiseCopyable {
    public var range: ByteRange
    /// Whether the bytes hold escapes, so that ``unescape(_:from:into:)`` gives fewer bytes than the range counts.
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
