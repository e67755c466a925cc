import CLinux
import Glibc
import Synchronization

/// Wakes a loop from another thread, through an eventfd that the loop watches for reading.
///
/// The waker publishes its work, then calls `signal`. The woken thread calls `drain` first and takes the work after it:
/// then no work is left behind unseen. Signals that come before the drain are one wake-up, and all but the first cost
/// no system call.
public final class Wakeup: Sendable {
    /// The eventfd. C libraries may write to it themselves (8 bytes, a 64-bit 1).
    public let descriptor: Int32
    /// True from a signal to the drain that sees it.
    private let isSignalled = Atomic<Bool>(false)

    public init() throws(SystemError) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw SystemError(code: errno, operation: "eventfd") }
    }

    deinit {
        Glibc.close(descriptor)
    }

    /// Thread-safe and async-signal-safe.
    public func signal() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let savedError = errno
        var one: UInt64 = 1
        // EAGAIN would mean that the counter is full, which is readable as well.
        _ = Glibc.write(descriptor, &one, MemoryLayout<UInt64>.size)
        errno = savedError
    }

    /// Takes the wake-up back. To be called before the work is looked at.
    public func drain() {
        var count: UInt64 = 0
        _ = Glibc.read(descriptor, &count, MemoryLayout<UInt64>.size)
        // Only after the read: a signal in between skips its write, and its work is seen by the look that follows the
        // drain.
        _ = isSignalled.exchange(false, ordering: .acquiringAndReleasing)
    }
}
