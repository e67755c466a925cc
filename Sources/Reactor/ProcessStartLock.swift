import Synchronization

/// A lock for starts of programs, and for work that a start would disturb. While a program is being started, it has
/// copies of all descriptors of this process. For example, a port then stays in use, although this process has closed
/// its listener.
public enum ProcessStartLock {
    private static let startLock = Mutex(())

    /// Runs `body` while no other caller's `body` runs. Use this method to start a program, and for work that fails
    /// while a new program still has copies of this process's descriptors.
    ///
    /// If `body` starts a program, no copies are left when this call ends: `posix_spawn` returns only after the new
    /// program has closed them.
    public static func runExclusively<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try startLock.withLock { _ throws(Failure) in try body() }
    }
}
