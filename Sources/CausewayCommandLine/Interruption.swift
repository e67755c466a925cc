import CLinux
import Glibc
import Synchronization

/// Notices Ctrl-C and SIGTERM, so that the program can first end child processes, remove temporary directories and wait
/// for records in flight. All instances share one state.
package struct Interruption {
    /// The number of a signal that has arrived; 0: none. Atomic, because the signal handler writes it.
    private static let receivedSignal = Atomic<Int32>(0)
    /// An eventfd on which ``awaitSignal()`` waits; -1: there is none. It stays readable after the first signal, so the
    /// wait also ends if the signal arrived just before it.
    private static let eventDescriptor = Atomic<Int32>(-1)
    /// True: a signal ends the program at once. False: a signal is only noticed. See ``withSignalsUnhandled(_:)``.
    private static let signalEndsProgram = Atomic<Bool>(false)

    /// - Parameter endsAtSecondSignal: whether a second signal of the same kind (SIGINT after SIGINT, or SIGTERM after
    ///   SIGTERM) ends the program at once. Set it if the program may wait long for another process, such as a broker,
    ///   before it ends.
    package init(endsAtSecondSignal: Bool = false) {
        if Self.eventDescriptor.load(ordering: .relaxed) < 0 {
            Self.eventDescriptor.store(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)), ordering: .relaxed)
        }
        var action = sigaction()
        if endsAtSecondSignal { action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) }
        action.__sigaction_handler.sa_handler = { number in
            Interruption.receivedSignal.store(number, ordering: .relaxed)
            var increment: UInt64 = 1
            let savedErrno = errno
            // Without an eventfd, this write fails and changes nothing. ``awaitSignal()`` then finds the signal when it
            // polls.
            _ = write(Interruption.eventDescriptor.load(ordering: .relaxed), &increment, MemoryLayout<UInt64>.size)
            errno = savedErrno
            if Interruption.signalEndsProgram.load(ordering: .relaxed) { Interruption.endProgram(by: number) }
        }
        sigaction(SIGINT, &action, nil)
        sigaction(SIGTERM, &action, nil)
        // A write to a process that has died then fails with an error, which the program can print. SIGPIPE would end
        // the program without a message.
        signal(SIGPIPE, SIG_IGN)
    }

    /// The number of the last signal that has arrived; nil if none has.
    package var pendingSignal: Int32? {
        let number = Self.receivedSignal.load(ordering: .relaxed)
        return number > 0 ? number : nil
    }

    /// Waits until a signal has arrived.
    package func awaitSignal() {
        let eventDescriptor = Self.eventDescriptor.load(ordering: .relaxed)
        while pendingSignal == nil {
            var pollEntry = pollfd(fd: eventDescriptor, events: Int16(POLLIN), revents: 0)
            // There is no eventfd if the process had too many open files. Then check once a second.
            poll(&pollEntry, 1, eventDescriptor < 0 ? Self.pollMilliseconds : -1)
        }
    }

    /// The time between two polls of ``awaitSignal()`` if there is no eventfd.
    private static let pollMilliseconds: Int32 = 1_000

    /// Runs a body that may block and cannot be cancelled. A signal that arrives during the body, or arrived before it,
    /// ends the program at once, so no other work may have to be finished first.
    package func withSignalsUnhandled<Value, Failure>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        Self.signalEndsProgram.store(true, ordering: .relaxed)
        defer { Self.signalEndsProgram.store(false, ordering: .relaxed) }
        if let pendingSignal { Self.endProgram(by: pendingSignal) }
        return try body()
    }

    /// Ends the program as if it did not handle the signal. A signal handler may call this, because `signal` and
    /// `raise` are safe there. The program then ends when the handler returns.
    private static func endProgram(by number: Int32) {
        signal(number, SIG_DFL)
        raise(number)
    }
}
