import Glibc
import Kafka
import Reactor
import Synchronization

/// Signals between the worker's control side and its threads. They are small, rare, and thread-safe.
final class IntakeSignals: Sendable {
    /// Monotonic milliseconds; 0: no stop was requested.
    private let stopTold = Atomic<Int64>(0)
    private let settingsOffered = Atomic<Bool>(false)
    private let stopAtOnceRequested = Atomic<Bool>(false)
    private let failure = Mutex<(any Error)?>(nil)
    private let ending = Mutex<Ending>(.awaited([]))

    private enum Ending {
        case awaited([CheckedContinuation<Void, Never>])
        case reached
    }

    var isStopRequested: Bool { stopToldMilliseconds != nil }

    /// When a stop was first requested. Monotonic milliseconds.
    var stopToldMilliseconds: Int64? {
        let told = stopTold.load(ordering: .acquiring)
        return told == 0 ? nil : told
    }

    func requestStop() {
        let now = EventLoop.monotonicMilliseconds
        _ = stopTold.compareExchange(expected: 0, desired: max(1, now), ordering: .acquiringAndReleasing)
    }

    /// New numbers are in the lanes' mailboxes. The Kafka thread must announce them to the lanes, because it alone gives orders.
    func offerSettings() { settingsOffered.store(true, ordering: .releasing) }

    func takeSettingsRequest() -> Bool {
        settingsOffered.load(ordering: .relaxed) && settingsOffered.exchange(false, ordering: .acquiring)
    }

    /// Whether a second signal has come: nothing is waited for any more.
    var isStoppingAtOnce: Bool { stopAtOnceRequested.load(ordering: .acquiring) }

    func requestStopAtOnce() { stopAtOnceRequested.store(true, ordering: .releasing) }

    /// Keeps the first failure, which is the reason for the worker's end.
    func fail(_ error: any Error) {
        failure.withLock { if $0 == nil { $0 = error } }
        requestStop()
    }

    var error: (any Error)? { failure.withLock { $0 } }

    /// All threads have ended.
    func noteEnded() {
        let waiting = ending.withLock { ending -> [CheckedContinuation<Void, Never>] in
            guard case .awaited(let waiting) = ending else { return [] }
            ending = .reached
            return waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func waitUntilEnded() async {
        await withCheckedContinuation { continuation in
            let isOver = ending.withLock { ending in
                guard case .awaited(let waiting) = ending else { return true }
                ending = .awaited(waiting + [continuation])
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
