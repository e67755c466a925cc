import Dispatch
import Glibc

/// A non-blocking pipe that reports events to a test. librdkafka writes to it as to an eventfd.
public final class WakeupPipe: Sendable {
    private let readDescriptor: Int32
    public let writeDescriptor: Int32
    private let waitQueue = DispatchQueue(label: "wakeup")

    public init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0)
        for end in ends { precondition(fcntl(end, F_SETFL, O_NONBLOCK) == 0 && fcntl(end, F_SETFD, FD_CLOEXEC) == 0) }
        (readDescriptor, writeDescriptor) = (ends[0], ends[1])
    }

    deinit {
        close(readDescriptor)
        close(writeDescriptor)
    }

    /// Wakes the reader. If the pipe is full, the reader is already awake.
    public func signal() {
        var byte: UInt8 = 1
        _ = write(writeDescriptor, &byte, 1)
    }

    /// Waits until something is written, and reads it. Returns false after the time limit.
    ///
    /// The wait blocks no thread that other tests need, so many tests can wait at the same time. For example, an
    /// embedded broker waits 3 s before it elects a group's leader.
    public func wait(milliseconds: Int64) async -> Bool {
        await withCheckedContinuation { continuation in
            waitQueue.async { continuation.resume(returning: self.waitBlocking(milliseconds: milliseconds)) }
        }
    }

    /// Waits on the calling thread until something is written. Returns false after the time limit.
    @discardableResult
    public func waitBlocking(milliseconds: Int64) -> Bool {
        var descriptor = pollfd(fd: readDescriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&descriptor, 1, Int32(clamping: milliseconds)) > 0 else { return false }
        var bytes = [UInt8](repeating: 0, count: 4_096)
        while read(readDescriptor, &bytes, bytes.count) > 0 {}
        return true
    }
}
