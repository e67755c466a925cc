import Numbers

/// Writes Redis commands (RESP) into memory of the caller: a connection's output buffer, or a buffer that collects
/// calls. The memory must have room for all that is written.
public struct RedisCommandWriter {
    /// The room that an argument needs besides its content: `$`, a length of at most eleven digits, and two line ends.
    public static let argumentOverheadBytes = 16

    private let base: UnsafeMutableRawPointer
    /// The number of bytes of the command that are in the memory so far.
    public private(set) var count = 0

    /// Begins a command with this number of arguments.
    public init(_ memory: UnsafeMutableRawBufferPointer, argumentCount: Int) {
        precondition(memory.count >= Self.argumentOverheadBytes)
        // Memory that is not empty has an address, so the pointer is not nil.
        base = memory.baseAddress.unsafelyUnwrapped
        writeLengthLine(UInt8(ascii: "*"), argumentCount)
    }

    /// Appends arguments to a command whose first `count` bytes are already in the memory.
    public init(_ memory: UnsafeMutableRawBufferPointer, continuingAt count: Int) {
        precondition(memory.count - count >= Self.argumentOverheadBytes)
        base = memory.baseAddress.unsafelyUnwrapped
        self.count = count
    }

    public mutating func writeVerbatim(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(start: base + count, count: bytes.count).copyMemory(from: bytes)
        count += bytes.count
    }

    public mutating func writeArgument(_ bytes: UnsafeRawBufferPointer) {
        writeArgument(byteCount: bytes.count) { $0.writeVerbatim(bytes) }
    }

    public mutating func writeArgument(number: Int) {
        writeArgument(byteCount: Decimal.digitCount(of: UInt64(number))) { $0.writeDecimal(number) }
    }

    public mutating func writeArgument(letter: UInt8) {
        writeArgument(byteCount: 1) { $0.writeByte(letter) }
    }

    public mutating func writeEmptyArgument() {
        writeArgument(byteCount: 0) { _ in }
    }

    /// Writes an argument that `body` composes from several parts.
    ///
    /// - Parameter byteCount: the number of bytes that `body` must write in all.
    @inline(__always)
    public mutating func writeArgument(byteCount: Int, _ body: (inout RedisCommandWriter) -> Void) {
        writeLengthLine(UInt8(ascii: "$"), byteCount)
        let end = count + byteCount
        body(&self)
        precondition(count == end, "an argument has as many bytes as its length line says")
        writeLineEnd()
    }

    public mutating func writeByte(_ byte: UInt8) {
        base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
        count += 1
    }

    /// Lets `body` write exactly `byteCount` bytes at the pointer that it gets.
    @inline(__always)
    public mutating func writeBytes(_ byteCount: Int, _ body: (UnsafeMutableRawPointer) -> Void) {
        body(base + count)
        count += byteCount
    }

    private mutating func writeLengthLine(_ type: UInt8, _ length: Int) {
        writeByte(type)
        writeDecimal(length)
        writeLineEnd()
    }

    private mutating func writeDecimal(_ number: Int) {
        let digitCount = Decimal.digitCount(of: UInt64(number))
        writeBytes(digitCount) { Decimal.write(UInt64(number), digitCount: digitCount, to: $0) }
    }

    private mutating func writeLineEnd() {
        writeByte(0x0D)
        writeByte(0x0A)
    }
}
