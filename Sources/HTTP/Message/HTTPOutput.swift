import Reactor

/// Bytes that go to a stream in parts, as fast as the peer takes them, so that a stream never holds a large message.
struct HTTPOutput {
    private static let partBytes = 256 * 1_024

    private let bytes: [UInt8]
    private var offset = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Writes what the stream has room for. If that is not all, `streamDrained` will follow.
    ///
    /// - Returns: whether everything is written.
    mutating func write(to stream: Stream) -> Bool {
        while offset < bytes.count, stream.pendingOutputBytes <= Stream.highWaterBytes {
            let end = min(offset + Self.partBytes, bytes.count)
            bytes.withUnsafeBytes { stream.write(UnsafeRawBufferPointer(rebasing: $0[offset..<end])) }
            offset = end
        }
        return offset == bytes.count
    }
}
