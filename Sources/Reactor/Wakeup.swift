import CLinux
import Glibc
import Synchronization

/// Wakes a loop from another thread, through an eventfd that the loop watches.
///
/// The waking thread publishes its work and then calls `signal`. The loop's thread must call `drain` before
/// it takes the work, because it could miss work otherwise. Several signals before a drain count as one
/// wake-up, and only the first makes a system call.
public final class Wakeup: Sendable {
    /// The eventfd. C libraries may write to it directly: 8 bytes, a 64-bit 1.
    public let descriptor: Int32
    /// True from a signal until the next drain.
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
        let savedError = errno
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, and so the descriptor is readable already.
        _ = Glibc.write(descriptor, &one, MemoryLayout<UInt64>.size)
        errno = savedError
    }

    /// Resets the wake-up. Must be called before the work is taken.
    public func drain() {
        var count: UInt64 = 0
        _ = Glibc.read(descriptor, &count, MemoryLayout<UInt64>.size)
        // Clear the flag only after the read. A signal in between skips its write, but the work that it
        // announces is taken after the drain.
        _ = isSignalled.exchange(false, ordering: .acquiringAndReleasing)
    }
}
