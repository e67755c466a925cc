/// A record's place in a trace and what vendors have to say of it, as the core carries both beside the record: the context in 25 bytes,
/// then `tracestate` as it came.
///
/// In the byte of flags, bit 2 is ours: the trace begins here.
public struct CarriedTrace {
    /// 16 bytes of the trace's id, 8 of the span's, 1 of flags.
    static let contextBytes = 25
    /// A longer `tracestate` is dropped: so much has to be passed on (W3C Trace Context, section 3.3.1.5), more need not be.
    public static let stateBytesMax = 512
    /// The most that ``write(to:)`` writes.
    public static let bytesMax = contextBytes + stateBytesMax

    /// The trace, and the span that what is done with the record hangs on.
    public var context: TraceContext
    /// No header named it: it begins at this worker, and its span is that of the record here.
    public var isBegunHere = false
    /// Empty for none.
    public var state = UnsafeRawBufferPointer(start: nil, count: 0)

    /// A place without a `tracestate`.
    public init(context: TraceContext, isBegunHere: Bool = false) {
        self.context = context
        self.isBegunHere = isBegunHere
    }

    /// What ``write(to:)`` wrote; nil of nothing. Valid while the bytes are.
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

    /// - Parameter room: at least ``bytesMax`` long.
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
