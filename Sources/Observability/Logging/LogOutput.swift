import Glibc
import Synchronization

/// A file descriptor to which several threads write log lines. A write never waits: if the reader of the log has
/// stopped reading, a line without room is lost. Otherwise the reader could stop every thread that logs.
///
/// Each write first asks with `poll` whether there is room. `O_NONBLOCK` is not used, because it would also change the
/// writes of other processes that have the same open file.
final class LogOutput: Sendable {
    /// The maximum number of bytes of one write. If `poll` reports room in a pipe, Linux takes this many bytes without
    /// waiting (`man 7 pipe`).
    private static let writtenBytesMax = 4_096

    private let descriptor: Int32
    /// Whether the last line was cut, so that the next line must first end it. The lock also keeps another thread from
    /// using up the room between `poll` and the write.
    private let isLineCut = Mutex(false)

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Writes a line.
    ///
    /// - Parameter line: a text that ends with a line feed.
    /// - Returns: whether the whole line was written. If not, it is lost, or only its beginning was written.
    func write(_ line: String) -> Bool {
        isLineCut.withLock { isLineCut in
            var text = isLineCut ? "\n" + line : line
            let (writtenCount, byteCount) = text.withUTF8 { bytes in
                (writeWhileWritable(UnsafeRawBufferPointer(bytes)), bytes.count)
            }
            if writtenCount > 0 { isLineCut = writtenCount < byteCount }
            return writtenCount == byteCount
        }
    }

    /// Writes bytes until the descriptor has no room or fails. Returns how many bytes were written.
    private func writeWhileWritable(_ bytes: UnsafeRawBufferPointer) -> Int {
        var writtenCount = 0
        while writtenCount < bytes.count, isWritable {
            let end = min(writtenCount + Self.writtenBytesMax, bytes.count)
            let part = UnsafeRawBufferPointer(rebasing: bytes[writtenCount..<end])
            let count = Glibc.write(descriptor, part.baseAddress, part.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            writtenCount += count
        }
        return writtenCount
    }

    /// Whether a write would neither wait nor fail. Regular files are always writable.
    private var isWritable: Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&request, 1, 0) == 1 && request.revents == Int16(POLLOUT)
    }
}
