import Synchronization

/// Keeps the starts of programs apart from work that such a start would disturb. At its start, a program has copies of
/// all descriptors of this process for a moment.
public enum ProcessStartLock {
    private static let startLock = Mutex(())

    /// Runs `body` while no other caller's `body` runs. Use it to start a program, and for work that fails while a new
    /// program still has copies of this process's descriptors.
    ///
    /// `posix_spawn` returns only after the new program has closed its copies. So no copy is left when this call ends.
    public static func runExclusively<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try startLock.withLock { _ throws(Failure) in try body() }
    }
}
