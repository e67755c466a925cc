import Numbers

/// Writes JSON into a buffer of its own. The buffer grows as needed and is kept for the next text. So after the first
/// texts, writing allocates nothing.
///
/// The writer adds the commas between members. Objects may be nested. There are no functions for arrays.
public struct JSONWriter: ~Copyable {
    /// The maximum length of a text, in bytes. All parts of a text have limits, so that texts stay far below this
    /// length. A longer text shows a defect of Causeway, and traps (R6).
    public static let bytesMax = 1 << 20

    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var writtenByteCount = 0
    /// Whether the next key is the first of its object, so that no comma precedes it.
    private var isBeforeFirstKey = true

    /// - Parameter capacity: the initial length of the buffer in bytes.
    public init(capacity: Int = 1_024) {
        precondition(capacity > 0 && capacity <= Self.bytesMax, "the capacity is outside of the writer's limits")
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        base.deallocate()
    }

    /// The text that was written. Valid until the writer writes again.
    public var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base, count: writtenByteCount)
    }

    /// Discards the text and keeps the buffer.
    public mutating func reset() {
        writtenByteCount = 0
        isBeforeFirstKey = true
    }

    /// Begins the text's object, or an object that is the value of a key.
    @inline(__always)
    public mutating func beginObject() {
        append(UInt8(ascii: "{"))
        isBeforeFirstKey = true
    }

    @inline(__always)
    public mutating func endObject() {
        append(UInt8(ascii: "}"))
        isBeforeFirstKey = false
    }

    /// Writes a key. The caller then writes its value.
    ///
    /// - Parameter name: ASCII without quotes, backslashes and control characters, because it is not escaped.
    @inline(__always)
    public mutating func key(_ name: StaticString) {
        let length = name.utf8CodeUnitCount
        reserve(length + 4)
        if !isBeforeFirstKey { put(UInt8(ascii: ",")) }
        isBeforeFirstKey = false
        put(UInt8(ascii: "\""))
        // The length of most names is known at compile time. The copy then becomes a few store instructions, which cost
        // less than a call of `memcpy`.
        put(name.utf8Start, length)
        put(UInt8(ascii: "\""))
        put(UInt8(ascii: ":"))
    }

    /// Writes a string that needs no escapes.
    public mutating func string(_ word: StaticString) {
        appendQuote()
        raw(UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount))
        appendQuote()
    }

    /// Writes bytes as a string, escaped by RFC 8259 §7. Each byte that is not part of well-formed UTF-8 is replaced by
    /// U+FFFD, because JSON must be UTF-8.
    public mutating func string(_ text: UnsafeRawBufferPointer) {
        appendQuote()
        stringContent(text)
        appendQuote()
    }

    /// Begins or ends a string whose parts are written one by one.
    @inline(__always)
    mutating func appendQuote() { append(UInt8(ascii: "\"")) }

    public mutating func integer(_ value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        integer(value.magnitude)
    }

    public mutating func integer(_ value: UInt64) {
        reserve(Decimal.digitsMax)
        writtenByteCount &+= Decimal.write(value, to: base + writtenByteCount)
    }

    /// Appends bytes unchanged: without a comma, quotes or escapes. The caller makes sure that the text stays valid, if
    /// it must be JSON. A Kafka key, for example, need not be JSON.
    public mutating func raw(_ bytes: UnsafeRawBufferPointer) {
        reserve(bytes.count)
        put(bytes)
    }

    public mutating func boolean(_ value: Bool) {
        let word: StaticString = value ? "true" : "false"
        raw(UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount))
    }

    /// Writes the inside of a string, between two calls of ``appendQuote()``.
    mutating func stringContent(_ text: UnsafeRawBufferPointer) {
        // The longest escape of a byte has six bytes.
        reserve(6 * text.count)
        let plainEnd = putPlainBytes(text, from: 0)
        if plainEnd < text.count { putEscaped(text, from: plainEnd) }
    }

    /// Writes the rest of a string, from the first byte that `putPlainBytes` did not copy. Adds no quotes.
    @inline(never)
    private mutating func putEscaped(_ text: UnsafeRawBufferPointer, from start: Int) {
        var position = start
        while position < text.count {
            let byte = text[position]
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                put(UInt8(ascii: "\\"))
                put(byte)
            case 0..<0x20:
                putEscape(byte)
            case 0x80...:
                let length = UTF8Sequence.multibyteLength(text, at: position)
                if length == 0 {
                    put(0xEF)
                    put(0xBF)
                    put(0xBD)
                } else {
                    put(UnsafeRawBufferPointer(rebasing: text[position..<position + length]))
                    position += length - 1
                }
            default:
                put(byte)
            }
            position = putPlainBytes(text, from: position + 1)
        }
    }

    /// Copies the bytes from `start` on, up to the first byte that must be escaped, is not ASCII, or is 0x7F.
    ///
    /// Eight bytes are copied at once, and checked afterwards. If one of them must not be copied, the next write
    /// overwrites that byte and those behind it. The caller has made room for all of `text`.
    ///
    /// - Returns: the position of the first byte that was not copied.
    @inline(__always)
    private mutating func putPlainBytes(_ text: UnsafeRawBufferPointer, from start: Int) -> Int {
        guard let source = text.baseAddress else { return start }
        var position = start
        while position &+ 8 <= text.count {
            let word = source.loadUnaligned(fromByteOffset: position, as: UInt64.self)
            (base + writtenByteCount).storeBytes(of: word, as: UInt64.self)
            let topBits = nonPlainByteMask(UInt64(littleEndian: word))
            if topBits != 0 {
                let plainCount = topBits.trailingZeroBitCount &>> 3
                writtenByteCount &+= plainCount
                return position &+ plainCount
            }
            writtenByteCount &+= 8
            position &+= 8
        }
        while position < text.count {
            let byte = source.load(fromByteOffset: position, as: UInt8.self)
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 || byte >= 0x7F {
                break
            }
            put(byte)
            position &+= 1
        }
        return position
    }

    /// Writes the escape of a control character, such as `\n` or `\u001F`.
    private mutating func putEscape(_ control: UInt8) {
        put(UInt8(ascii: "\\"))
        switch control {
        case 0x08: put(UInt8(ascii: "b"))
        case 0x09: put(UInt8(ascii: "t"))
        case 0x0A: put(UInt8(ascii: "n"))
        case 0x0C: put(UInt8(ascii: "f"))
        case 0x0D: put(UInt8(ascii: "r"))
        default:
            put(UInt8(ascii: "u"))
            put(UInt8(ascii: "0"))
            put(UInt8(ascii: "0"))
            put(Hexadecimal.digit(control >> 4))
            put(Hexadecimal.digit(control & 0xF))
        }
    }

    mutating func append(_ byte: UInt8) {
        reserve(1)
        put(byte)
    }

    // The functions named `put` do not check the buffer's length: their callers call ``reserve(_:)`` before.

    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        base.storeBytes(of: byte, toByteOffset: writtenByteCount, as: UInt8.self)
        writtenByteCount &+= 1
    }

    @inline(__always)
    private mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        put(start, bytes.count)
    }

    @inline(__always)
    private mutating func put(_ start: UnsafeRawPointer, _ length: Int) {
        (base + writtenByteCount).copyMemory(from: start, byteCount: length)
        writtenByteCount &+= length
    }

    @inline(__always)
    private mutating func reserve(_ byteCount: Int) {
        if byteCount > capacity &- writtenByteCount { grow(byteCount) }
    }

    @inline(never)
    private mutating func grow(_ byteCount: Int) {
        precondition(byteCount <= Self.bytesMax - writtenByteCount, "the text exceeds the writer's limit")
        capacity = min(max(writtenByteCount + byteCount, 2 * capacity), Self.bytesMax)
        let newBase = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        newBase.copyMemory(from: base, byteCount: writtenByteCount)
        base.deallocate()
        base = newBase
    }
}
