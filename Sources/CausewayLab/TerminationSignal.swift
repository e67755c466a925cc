import Foundation
import Glibc

/// Waits for SIGTERM or SIGINT.
///
/// A handler catches the signals. Blocking them in one thread is not enough, because the Swift runtime already has
/// other threads: a signal to one of these would end the process.
struct TerminationSignal {
    /// A pipe to which the handler writes, so that `wait` sees data. The process has one pipe for its one set of
    /// handlers, and never closes the pipe.
    private static let pipeDescriptors: (reading: Int32, writing: Int32) = {
        var pipeEnds: [Int32] = [-1, -1]
        precondition(pipe(&pipeEnds) == 0, "a process that just started has descriptors left")
        for end in pipeEnds { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (pipeEnds[0], pipeEnds[1])
    }()

    /// Installs the handlers. From now on, the signals do not end the process.
    init() {
        // Create the pipe now: a signal handler must not run the initializer of a static property.
        precondition(Self.pipeDescriptors.writing >= 0)
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in
            var byte: UInt8 = 1
            let code = errno
            _ = write(TerminationSignal.pipeDescriptors.writing, &byte, 1)
            errno = code
        }
        sigaction(SIGTERM, &action, nil)
        sigaction(SIGINT, &action, nil)
    }

    /// Waits until a signal has arrived. A separate thread waits, because Swift's thread pool may have only one thread.
    func awaitArrival() async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                blockUntilArrival()
                continuation.resume()
            }
        }
    }

    /// Waits until a signal has arrived. If `input` (a file descriptor) is given, the wait also ends when `input` has
    /// ended or cannot be read. Discards the bytes of `input`.
    func blockUntilArrival(orEndOf input: Int32? = nil) {
        var awaitedInputs = [pollfd(fd: Self.pipeDescriptors.reading, events: Int16(POLLIN), revents: 0)]
        if let input { awaitedInputs.append(pollfd(fd: input, events: Int16(POLLIN), revents: 0)) }
        while true {
            guard poll(&awaitedInputs, nfds_t(awaitedInputs.count), -1) > 0 else { continue }
            if awaitedInputs[0].revents != 0 { return }
            if awaitedInputs.count > 1, awaitedInputs[1].revents != 0, let input {
                var discarded = [UInt8](repeating: 0, count: 4_096)
                if read(input, &discarded, discarded.count) <= 0 { return }
            }
        }
    }
}
