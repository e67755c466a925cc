import Numbers

/// The position of a span in a distributed trace: W3C Trace Context's `traceparent`
/// (https://www.w3.org/TR/trace-context/, section 3.2).
public struct TraceContext: Sendable, Equatable, BitwiseCopyable {
    /// The number of bytes of a `traceparent` of version 00: `00-` trace `-` parent `-` flags.
    public static let textByteCount = 55

    /// The id of the trace: 16 bytes, never all zero.
    public var traceIdentifierHigh: UInt64
    public var traceIdentifierLow: UInt64
    /// The id of the span that is the parent of the next spans; never zero.
    public var spanIdentifier: UInt64
    /// The flag 0x01: the sender may have recorded the trace. Flags other than 0x01 and 0x02 are dropped, because
    /// unknown flags must be written as zero (section 3.2.2.5).
    public var isSampled: Bool
    /// The flag 0x02: the low seven bytes of the trace id are random. Only W3C Trace Context Level 2 has this flag
    /// (https://www.w3.org/TR/trace-context-2/).
    public var hasRandomTraceIdentifier: Bool

    public init(
        traceIdentifierHigh: UInt64,
        traceIdentifierLow: UInt64,
        spanIdentifier: UInt64,
        isSampled: Bool,
        hasRandomTraceIdentifier: Bool = false
    ) {
        precondition(
            traceIdentifierHigh | traceIdentifierLow != 0 && spanIdentifier != 0,
            "ids of a trace are not zero"
        )
        self.traceIdentifierHigh = traceIdentifierHigh
        self.traceIdentifierLow = traceIdentifierLow
        self.spanIdentifier = spanIdentifier
        self.isSampled = isSampled
        self.hasRandomTraceIdentifier = hasRandomTraceIdentifier
    }

    /// Reads a header's value. Returns nil for a value that receivers must ignore: a wrong form, upper case, zero ids,
    /// version ff. A later version is read like version 00 (section "Versioning of traceparent").
    public init?(_ text: UnsafeRawBufferPointer) {
        let dash = UInt8(ascii: "-")
        guard text.count >= Self.textByteCount,
            let version = Self.hexNumber(text, 0..<2), version != 0xFF,
            text.count == Self.textByteCount || (version > 0 && text[Self.textByteCount] == dash),
            text[2] == dash, text[35] == dash, text[52] == dash,
            let high = Self.hexNumber(text, 3..<19), let low = Self.hexNumber(text, 19..<35), high | low != 0,
            let spanIdentifier = Self.hexNumber(text, 36..<52), spanIdentifier != 0,
            let flags = Self.hexNumber(text, 53..<55)
        else { return nil }
        traceIdentifierHigh = high
        traceIdentifierLow = low
        self.spanIdentifier = spanIdentifier
        isSampled = flags & 1 != 0
        hasRandomTraceIdentifier = flags & 2 != 0
    }

    /// Returns the context for the children of another span of this trace.
    public func child(spanIdentifier: UInt64) -> TraceContext {
        TraceContext(
            traceIdentifierHigh: traceIdentifierHigh,
            traceIdentifierLow: traceIdentifierLow,
            spanIdentifier: spanIdentifier,
            isSampled: isSampled,
            hasRandomTraceIdentifier: hasRandomTraceIdentifier
        )
    }

    /// Writes the context as version 00, without allocation.
    ///
    /// - Parameter output: a buffer of at least ``textByteCount`` bytes.
    public func write(to output: UnsafeMutableRawBufferPointer) {
        precondition(output.count >= Self.textByteCount, "room for a traceparent")
        output[0] = UInt8(ascii: "0")
        output[1] = UInt8(ascii: "0")
        output[2] = UInt8(ascii: "-")
        output[35] = UInt8(ascii: "-")
        output[52] = UInt8(ascii: "-")
        Self.write(traceIdentifierHigh, to: output, at: 3)
        Self.write(traceIdentifierLow, to: output, at: 19)
        Self.write(spanIdentifier, to: output, at: 36)
        output[53] = UInt8(ascii: "0")
        output[54] = UInt8(ascii: "0") + UInt8(flags)
    }

    /// The flags of the header: 0x01 sampled, 0x02 random.
    var flags: Int { (isSampled ? 1 : 0) + (hasRandomTraceIdentifier ? 2 : 0) }

    /// Returns the number that the characters in `range` represent; nil if one of them is no lower-case hexadecimal
    /// digit. The range has at most 16 characters: the number has room for no more.
    private static func hexNumber(_ text: UnsafeRawBufferPointer, _ range: Range<Int>) -> UInt64? {
        let digits = UnsafeRawBufferPointer(rebasing: text[range])
        guard Hexadecimal.areLowerCaseDigits(digits) else { return nil }
        return digits.reduce(0) { $0 << 4 | UInt64(Hexadecimal.digitValue($1) ?? 0) }
    }

    private static func write(_ number: UInt64, to output: UnsafeMutableRawBufferPointer, at start: Int) {
        withUnsafeBytes(of: number.bigEndian) { bytes in
            _ = Hexadecimal.write(bytes, to: UnsafeMutableRawBufferPointer(rebasing: output[start..<start + 16]))
        }
    }
}

extension TraceContext: CustomStringConvertible {
    public var description: String {
        String(unsafeUninitializedCapacity: Self.textByteCount) { buffer in
            write(to: UnsafeMutableRawBufferPointer(buffer))
            return Self.textByteCount
        }
    }
}
