import Glibc
import Synchronization

/// Ctrl-C and SIGTERM, noticed where it suits, so that what was begun is ended in order: children, directories, records on their way.
package struct Interruption {
    /// Written by the handler: an atomic store is all that a signal handler may do.
    private static let received = Atomic<Int32>(0)
    /// A signal is not noticed only, but ends the program.
    private static let endsAtOnce = Atomic<Bool>(false)

    /// - Parameter endsAtSecond: the second signal of a kind ends the program at once: where the end in order can have to wait for somebody else.
    package init(endsAtSecond: Bool = false) {
        var action = sigaction()
        if endsAtSecond { action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) }
        action.__sigaction_handler.sa_handler = { number in
            Interruption.received.store(number, ordering: .relaxed)
            if Interruption.endsAtOnce.load(ordering: .relaxed) { Interruption.end(by: number) }
        }
        sigaction(SIGINT, &action, nil)
        sigaction(SIGTERM, &action, nil)
        // A part that has died makes a write fail, which is told better than by our own death.
        signal(SIGPIPE, SIG_IGN)
    }

    /// The signal that has come, if one has.
    package var pending: Int32? {
        let number = Self.received.load(ordering: .relaxed)
        return number > 0 ? number : nil
    }

    /// Does what may wait for somebody else and cannot be called off, while nothing is under way that would have to be ended in order:
    /// meanwhile a signal, or one that has come already, ends the program as if it were not handled.
    package func endingAtOnce<Value, Failure>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        Self.endsAtOnce.store(true, ordering: .relaxed)
        defer { Self.endsAtOnce.store(false, ordering: .relaxed) }
        if let pending { Self.end(by: pending) }
        return try body()
    }

    /// Both calls are allowed in a signal handler; from there the signal comes when the handler returns.
    private static func end(by number: Int32) {
        signal(number, SIG_DFL)
        raise(number)
    }
}
