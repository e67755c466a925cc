import Synchronization

/// The start of another program, which for a moment has copies of all descriptors of this process.
public enum ProgramStart {
    private static let gate = Mutex(())

    /// Runs `body`, which starts a program, or which fails if another process has a copy of a descriptor. Calls run one after another.
    ///
    /// `posix_spawn` returns when the new program has closed its copies, so a call with it leaves none behind.
    public static func exclusively<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try gate.withLock { _ throws(Failure) in try body() }
    }
}
