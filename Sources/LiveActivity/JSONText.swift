/// The bytes of a record, read as JSON (RFC 8259). (R6)
///
/// Each function takes the position of the next byte, and returns the position after what it has read. So positions
/// stay in registers, and a ``JSONText`` never changes. The caller skips white space before a value.
/// - Important: A position is never negative and at most `count`. ``byte(_:)`` and ``eightBytes(_:)`` read memory
///   without a check, so their callers must first compare the position with `count`.
struct JSONText {
    let base: UnsafeRawPointer
    let count: Int

    /// - Throws: a ``Fault`` if the record is empty or larger than ``Limits/recordBytesMax``.
    init(_ record: UnsafeRawBufferPointer) throws(Fault) {
        guard let base = record.baseAddress, record.count > 0 else { throw Fault(.emptyRecord, .record, at: 0) }
        guard record.count <= Limits.recordBytesMax else {
            throw Fault(.recordTooLarge, .record, at: 0, valueAboveLimit: record.count)
        }
        self.base = base
        self.count = record.count
    }

    @inline(__always)
    func byte(_ position: Int) -> UInt8 {
        assert(position >= 0 && position < count)
        return base.load(fromByteOffset: position, as: UInt8.self)
    }

    @inline(__always)
    func eightBytes(_ position: Int) -> UInt64 {
        assert(position >= 0 && position <= count - 8)
        return UInt64(littleEndian: base.loadUnaligned(fromByteOffset: position, as: UInt64.self))
    }

    /// Returns the bytes of a range that was made from positions in this text.
    @inline(__always)
    func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        assert(range.end <= count)
        return UnsafeRawBufferPointer(start: base + Int(range.offset), count: Int(range.count))
    }

    /// Returns the byte at `position`, or 0 at the end of the record. Callers need not distinguish the end from a byte
    /// 0 in the record: outside of a string, both are faults.
    @inline(__always)
    func peek(_ position: Int) -> UInt8 {
        position < count ? byte(position) : 0
    }

    @inline(__always)
    func skipWhitespace(_ position: Int) -> Int {
        if position < count && byte(position) > 0x20 { return position }
        return skipWhitespaceRun(position)
    }

    @inline(never)
    private func skipWhitespaceRun(_ start: Int) -> Int {
        var position = start
        while position < count {
            switch byte(position) {
            case 0x20, 0x0A, 0x0D, 0x09: position &+= 1
            default: return position
            }
        }
        return position
    }

    /// Returns the fault for a wrong byte at `position`: `truncated` at the end of the record, else `notJSON`.
    @inline(never)
    func unexpectedByteFault(_ position: Int, _ field: Field) -> Fault {
        Fault(position < count ? .notJSON : .truncated, field, at: position)
    }

    /// Returns the fault for a wrong value at `position`: `wrongType` if a value of another type begins there,
    /// `truncated` at the end of the record, else `notJSON`.
    @inline(never)
    func wrongTypeFault(_ position: Int, _ field: Field) -> Fault {
        guard position < count else { return Fault(.truncated, field, at: position) }
        switch byte(position) {
        case UInt8(ascii: "\""), UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "-"), UInt8(ascii: "t"),
            UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            return Fault(.wrongType, field, at: position)
        default:
            return Fault(.notJSON, field, at: position)
        }
    }
}
