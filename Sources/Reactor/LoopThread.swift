import CLinux
import Glibc
import Synchronization

/// A thread with an event loop of its own. If nobody calls `join`, the thread runs on after the last reference to this
/// object is gone.
public final class LoopThread: Sendable {
    /// The running thread; nil after `join`.
    private let thread: Mutex<pthread_t?>

    private init(thread: pthread_t) {
        self.thread = Mutex(thread)
    }

    deinit {
        thread.withLock { thread in
            if let thread { _ = pthread_detach(thread) }
        }
    }

    /// Starts the thread and returns.
    ///
    /// The thread blocks all signals, so that the kernel delivers them to the threads that handle signals.
    ///
    /// - Parameters:
    ///   - name: shown by debuggers and `top -H`, cut to at most 15 bytes.
    ///   - body: builds the objects of the loop and calls `run()` on the loop. When the body returns, the loop releases
    ///     the handlers that are still registered, and the thread ends.
    public static func start(
        name: String,
        _ body: @escaping @Sendable (EventLoop) -> Void
    ) throws(SystemError) -> LoopThread {
        let threadStart = ThreadStart(name: name, loop: try EventLoop(), body: body)
        var thread = pthread_t()
        let result = startThread(&thread, attributes: nil) {
            threadStart.run()
        }
        guard result == 0 else { throw SystemError(code: result, operation: "pthread_create") }
        return LoopThread(thread: thread)
    }

    /// Waits until the thread has ended. Must not be called on the thread itself. Further calls return at once.
    public func join() {
        thread.withLock { thread in
            guard let joined = thread else { return }
            precondition(pthread_equal(joined, pthread_self()) == 0, "a thread cannot wait for itself")
            _ = pthread_join(joined, nil)
            thread = nil
        }
    }
}

/// Passes a loop to its thread. `@unchecked Sendable` is correct, because the thread that calls `LoopThread.start` does
/// not use the loop after it has started the loop's thread.
private final class ThreadStart: @unchecked Sendable {
    private let name: String
    private let loop: EventLoop
    private let body: @Sendable (EventLoop) -> Void

    init(name: String, loop: EventLoop, body: @escaping @Sendable (EventLoop) -> Void) {
        self.name = name
        self.loop = loop
        self.body = body
    }

    func run() {
        _ = CLinux_pthread_setname_np(pthread_self(), truncatedThreadName(name))
        body(loop)
        loop.releaseHandlers()
    }
}

/// Returns the longest prefix of whole characters that has at most 15 bytes. The kernel refuses a longer name.
private func truncatedThreadName(_ name: String) -> String {
    var prefix = name
    while prefix.utf8.count > 15 { prefix.removeLast() }
    return prefix
}

private final class ClosureBox {
    let run: @Sendable () -> Void
    init(run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Starts a thread that runs a closure with all signals blocked.
///
/// - Returns: the error number of `pthread_create`, 0 for success.
func startThread(
    _ thread: inout pthread_t,
    attributes: UnsafePointer<pthread_attr_t>?,
    _ run: @escaping @Sendable () -> Void
) -> Int32 {
    let body = Unmanaged.passRetained(ClosureBox(run: run))
    var allSignals = sigset_t()
    var previousSignals = sigset_t()
    sigfillset(&allSignals)
    pthread_sigmask(SIG_SETMASK, &allSignals, &previousSignals)
    let result = pthread_create(
        &thread,
        attributes,
        { argument in
            guard let argument else { return nil }
            Unmanaged<ClosureBox>.fromOpaque(argument).takeRetainedValue().run()
            return nil
        },
        body.toOpaque()
    )
    pthread_sigmask(SIG_SETMASK, &previousSignals, nil)
    if result != 0 { body.release() }
    return result
}
