import Reactor

/// Writes the body of a message to a stream in parts. The next part waits until the peer has taken enough bytes, so the
/// stream never buffers the whole of a large body.
struct HTTPBodyWriter {
    private static let partBytes = 256 * 1_024

    private let bytes: [UInt8]
    private var offset = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Writes as many bytes as the stream has room for. If bytes are left, call this method again in `streamHasRoom`.
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
