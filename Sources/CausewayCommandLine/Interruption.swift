import Glibc
import Synchronization

/// Ctrl-C and SIGTERM, noticed where it suits, so that what was begun is ended in order: children, directories, records on their way.
package struct Interruption {
    /// Written by the handler: an atomic store is all that a signal handler may do.
    private static let received = Atomic<Int32>(0)

    /// - Parameter endsAtSecond: the second signal of a kind ends the program at once: where the end in order can have to wait for somebody else.
    package init(endsAtSecond: Bool = false) {
        var action = sigaction()
        if endsAtSecond { action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) }
        action.__sigaction_handler.sa_handler = { Interruption.received.store($0, ordering: .relaxed) }
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
}
