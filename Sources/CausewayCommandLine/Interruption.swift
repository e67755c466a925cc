import CLinux
import Glibc
import Synchronization

/// Notices Ctrl-C and SIGTERM, so that the program can first end its work in order: children, directories, records in flight.
package struct Interruption {
    /// Written by the signal handler, which may do little more than atomic stores and system calls.
    private static let received = Atomic<Int32>(0)
    /// An eventfd, readable from the first signal on; -1 if there is none.
    private static let event = Atomic<Int32>(-1)
    /// Whether a signal ends the program at once, instead of only being noticed.
    private static let endsAtOnce = Atomic<Bool>(false)

    /// - Parameter endsAtSecond: whether the second signal of a kind ends the program at once. For programs whose
    ///   orderly end may have to wait for somebody else.
    package init(endsAtSecond: Bool = false) {
        if Self.event.load(ordering: .relaxed) < 0 {
            Self.event.store(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)), ordering: .relaxed)
        }
        var action = sigaction()
        if endsAtSecond { action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) }
        action.__sigaction_handler.sa_handler = { number in
            Interruption.received.store(number, ordering: .relaxed)
            var one: UInt64 = 1
            let savedError = errno
            // Without an eventfd the write fails, and `await` polls.
            _ = write(Interruption.event.load(ordering: .relaxed), &one, MemoryLayout<UInt64>.size)
            errno = savedError
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

    /// Returns when a signal has arrived.
    package func await() {
        let event = Self.event.load(ordering: .relaxed)
        while pending == nil {
            var wanted = pollfd(fd: event, events: Int16(POLLIN), revents: 0)
            // A process that may open no more files has no eventfd.
            poll(&wanted, 1, event < 0 ? Self.lookingMilliseconds : -1)
        }
    }

    /// How often ``await()`` polls without an eventfd.
    private static let lookingMilliseconds: Int32 = 1_000

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
