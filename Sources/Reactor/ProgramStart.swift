import Synchronization

/// Starts of other programs. For a moment, a started program has copies of all descriptors of this process.
public enum ProgramStart {
    private static let gate = Mutex(())

    /// Runs `body` while no other call runs. `body` starts a program, or does work that fails if another
    /// process has a copy of a descriptor.
    ///
    /// `posix_spawn` returns after the new program has closed its copies, so the next call finds no copies.
    public static func exclusively<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try gate.withLock { _ throws(Failure) in try body() }
    }
}
