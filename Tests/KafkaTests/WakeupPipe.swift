import Dispatch
import Glibc

/// A non-blocking pipe instead of an eventfd: librdkafka writes to either.
final class WakeupPipe: Sendable {
    let reading: Int32
    let writing: Int32
    private let waiting = DispatchQueue(label: "wakeup")

    init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0)
        for end in ends { precondition(fcntl(end, F_SETFL, O_NONBLOCK) == 0) }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Waits until something is written, and reads it. Returns false if the time is over.
    ///
    /// The embedded broker lets each group wait for 3 s before it elects a leader. So tests wait in parallel, and none blocks a thread that
    /// another test needs.
    func wait(milliseconds: Int64) async -> Bool {
        await withCheckedContinuation { continuation in
            waiting.async { continuation.resume(returning: self.waitHere(milliseconds: milliseconds)) }
        }
    }

    func waitHere(milliseconds: Int64) -> Bool {
        var descriptor = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
        guard poll(&descriptor, 1, Int32(clamping: milliseconds)) > 0 else { return false }
        var bytes = [UInt8](repeating: 0, count: 4096)
        while read(reading, &bytes, bytes.count) > 0 {}
        return true
    }
}

func monotonicMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}

/// The maximum wait of a test for an event: far longer than an event takes on the slowest machine.
let eventLimitMilliseconds: Int64 = 120_000
