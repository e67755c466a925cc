import CLinux
import Glibc
import Synchronization

/// Wakes a loop from any thread, through an eventfd that the loop watches.
///
/// A thread publishes its work and then calls `signal`. The loop's thread must call `reset` before it takes the work;
/// otherwise the loop could miss work. Only the first signal after a reset makes a system call; further signals cause
/// no further wake-up.
public final class Wakeup: Sendable {
    /// The eventfd. A C library may signal it directly by writing 8 bytes: the integer 1 in 64 bits.
    public let descriptor: Int32
    /// True from a call of `signal` until the next `reset`.
    private let isSignalled = Atomic<Bool>(false)

    public init() throws(SystemError) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw SystemError(code: errno, operation: "eventfd") }
    }

    deinit {
        Glibc.close(descriptor)
    }

    /// Wakes the loop. Thread-safe and async-signal-safe.
    public func signal() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let savedErrno = errno
        var one: UInt64 = 1
        // EAGAIN means that the counter is full. The descriptor is then readable already.
        _ = Glibc.write(descriptor, &one, MemoryLayout<UInt64>.size)
        errno = savedErrno
    }

    /// Resets the wake-up. The loop's thread must call this method before it takes the work.
    public func reset() {
        var count: UInt64 = 0
        _ = Glibc.read(descriptor, &count, MemoryLayout<UInt64>.size)
        // Set `isSignalled` to false only after the read. A thread that calls `signal` before this line makes no system
        // call. No work is lost: that thread has already published its work, and the loop takes it after this method.
        _ = isSignalled.exchange(false, ordering: .acquiringAndReleasing)
    }
}
