import Glibc
import Synchronization

/// Notices Ctrl-C and SIGTERM, so that the program can first end its work in order: children, directories, records in flight.
package struct Interruption {
    /// Written by the signal handler, which may do little more than an atomic store.
    private static let received = Atomic<Int32>(0)
    /// Whether a signal ends the program at once, instead of only being noticed.
    private static let endsAtOnce = Atomic<Bool>(false)

    /// - Parameter endsAtSecond: whether the second signal of a kind ends the program at once. For programs whose
    ///   orderly end may have to wait for somebody else.
    package init(endsAtSecond: Bool = false) {
        var action = sigaction()
        if endsAtSecond { action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) }
        action.__sigaction_handler.sa_handler = { number in
            Interruption.received.store(number, ordering: .relaxed)
            if Interruption.endsAtOnce.load(ordering: .relaxed) { Interruption.end(by: number) }
        }
        sigaction(SIGINT, &action, nil)
        sigaction(SIGTERM, &action, nil)
        // If another process dies, a write to it fails, and that error says more than our own death by a signal.
        signal(SIGPIPE, SIG_IGN)
    }

    /// The signal that has arrived; nil if none has.
    package var pending: Int32? {
        let number = Self.received.load(ordering: .relaxed)
        return number > 0 ? number : nil
    }

    /// Runs a body that may wait for somebody else and cannot be cancelled. Nothing may be in progress that must be ended
    /// in order: during the body a signal, or one that has already arrived, ends the program as if it were not handled.
    package func withSignalsUnhandled<Value, Failure>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        Self.endsAtOnce.store(true, ordering: .relaxed)
        defer { Self.endsAtOnce.store(false, ordering: .relaxed) }
        if let pending { Self.end(by: pending) }
        return try body()
    }

    /// Ends the program by the signal. Both calls are allowed in a signal handler; there the signal takes effect when
    /// the handler returns.
    private static func end(by number: Int32) {
        signal(number, SIG_DFL)
        raise(number)
    }
}
