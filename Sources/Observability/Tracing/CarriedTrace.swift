/// A record's trace, in the form in which the core carries it with the record: the context in 25 bytes, then
/// `tracestate` as it was received.
///
/// In the byte of flags, bit 2 is our own: the trace begins here.
public struct CarriedTrace {
    /// 16 bytes of the trace's id, 8 of the span's, 1 of flags.
    static let contextBytes = 25
    /// The longest `tracestate` that is kept. At least this much must be propagated (W3C Trace Context, section
    /// 3.3.1.5); a longer one is dropped.
    public static let stateBytesMax = 512
    /// The most that ``write(to:)`` writes.
    public static let bytesMax = contextBytes + stateBytesMax

    /// The trace, and the parent span of the spans for this record.
    public var context: TraceContext
    /// Whether the trace begins at this worker, because no header named one. Then the span is the record's own.
    public var isBegunHere = false
    /// The `tracestate`; empty if there is none.
    public var state = UnsafeRawBufferPointer(start: nil, count: 0)

    /// A trace without a `tracestate`.
    public init(context: TraceContext, isBegunHere: Bool = false) {
        self.context = context
        self.isBegunHere = isBegunHere
    }

    /// Reads what ``write(to:)`` wrote; nil if there are no bytes. Valid as long as the bytes.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.contextBytes else { return nil }
        let flags = bytes[24]
        context = TraceContext(
            traceHigh: bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
            traceLow: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
            span: bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
            isSampled: flags & 1 != 0,
            isRandom: flags & 2 != 0
        )
        isBegunHere = flags & 4 != 0
        state = UnsafeRawBufferPointer(rebasing: bytes[Self.contextBytes...])
    }

    /// - Parameter room: at least ``bytesMax`` bytes.
    /// - Returns: the part that was written.
    public func write(to room: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
        precondition(room.count >= Self.contextBytes + state.count, "room for a trace")
        room.storeBytes(of: context.traceHigh, toByteOffset: 0, as: UInt64.self)
        room.storeBytes(of: context.traceLow, toByteOffset: 8, as: UInt64.self)
        room.storeBytes(of: context.span, toByteOffset: 16, as: UInt64.self)
        room[24] = UInt8(context.flags) | (isBegunHere ? 4 : 0)
        UnsafeMutableRawBufferPointer(rebasing: room[Self.contextBytes...]).copyMemory(from: state)
        return UnsafeRawBufferPointer(rebasing: room[..<(Self.contextBytes + state.count)])
    }
}
