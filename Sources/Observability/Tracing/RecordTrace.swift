/// A record's trace, and the bytes in which the core keeps the trace with the record: 25 bytes for the context, then
/// the `tracestate` as it was received.
///
/// Bit 2 of the flags' byte says that the trace begins at this worker. This bit is free, because ``TraceContext`` keeps
/// only bits 0 and 1.
public struct RecordTrace {
    /// The trace id has 16 bytes, the span id 8, the flags 1.
    static let contextBytes = 25
    /// The maximum number of bytes of a `tracestate`; a longer one is left out. W3C Trace Context recommends that at
    /// least 512 characters are passed on.
    public static let traceStateBytesMax = 512
    /// The maximum number of bytes that ``write(to:)`` writes.
    public static let bytesMax = contextBytes + traceStateBytesMax

    /// The trace id and a span id. If the trace begins at this worker (``beginsAtThisWorker``), the span is that of the
    /// record's first result. Otherwise it is the parent of the spans of all the record's results.
    public var context: TraceContext
    /// Whether the trace begins at this worker, because no valid header named a trace.
    public var beginsAtThisWorker = false
    /// The `tracestate` header; empty if there is none, or if it is longer than ``traceStateBytesMax``.
    public var traceState = UnsafeRawBufferPointer(start: nil, count: 0)

    /// Makes a trace without a `tracestate`.
    public init(context: TraceContext, beginsAtThisWorker: Bool = false) {
        self.context = context
        self.beginsAtThisWorker = beginsAtThisWorker
    }

    /// Reads what ``write(to:)`` wrote; nil if there are too few bytes. The trace refers to these bytes, and is valid
    /// only as long as they are.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.contextBytes else { return nil }
        let flags = bytes[24]
        context = TraceContext(
            traceIdentifierHigh: bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
            traceIdentifierLow: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
            spanIdentifier: bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
            isSampled: flags & 1 != 0,
            hasRandomTraceIdentifier: flags & 2 != 0
        )
        beginsAtThisWorker = flags & 4 != 0
        traceState = UnsafeRawBufferPointer(rebasing: bytes[Self.contextBytes...])
    }

    /// Writes the trace into a buffer.
    ///
    /// - Parameter buffer: the buffer, with at least ``bytesMax`` bytes.
    /// - Returns: the part that was written.
    public func write(to buffer: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
        precondition(buffer.count >= Self.contextBytes + traceState.count, "room for a trace")
        buffer.storeBytes(of: context.traceIdentifierHigh, toByteOffset: 0, as: UInt64.self)
        buffer.storeBytes(of: context.traceIdentifierLow, toByteOffset: 8, as: UInt64.self)
        buffer.storeBytes(of: context.spanIdentifier, toByteOffset: 16, as: UInt64.self)
        buffer[24] = UInt8(context.flags) | (beginsAtThisWorker ? 4 : 0)
        UnsafeMutableRawBufferPointer(rebasing: buffer[Self.contextBytes...]).copyMemory(from: traceState)
        return UnsafeRawBufferPointer(rebasing: buffer[..<(Self.contextBytes + traceState.count)])
    }
}
