import Glibc
import Kafka
import Reactor
import Synchronization

/// What passes between the worker's control side and its threads: small, rare, and thread-safe.
final class IntakeSignals: Sendable {
    /// Monotonic time; 0: nobody has told the worker to stop.
    private let stopTold = Atomic<Int64>(0)
    private let numbersOffered = Atomic<Bool>(false)
    private let hurryRequested = Atomic<Bool>(false)
    private let failure = Mutex<(any Error)?>(nil)
    private let ending = Mutex<Ending>(.awaited([]))

    private enum Ending {
        case awaited([CheckedContinuation<Void, Never>])
        case reached
    }

    var isStopRequested: Bool { stopToldMilliseconds != nil }

    /// When the worker was first told to stop, monotonic.
    var stopToldMilliseconds: Int64? {
        let told = stopTold.load(ordering: .acquiring)
        return told == 0 ? nil : told
    }

    func requestStop() {
        let now = EventLoop.monotonicMilliseconds
        _ = stopTold.compareExchange(expected: 0, desired: max(1, now), ordering: .acquiringAndReleasing)
    }

    /// New numbers lie in the lanes' mailboxes: the Kafka thread, which alone gives orders, is to say so.
    func offerNumbers() { numbersOffered.store(true, ordering: .releasing) }

    func takeNumbersRequest() -> Bool {
        numbersOffered.load(ordering: .relaxed) && numbersOffered.exchange(false, ordering: .acquiring)
    }

    /// Nothing is waited for any more.
    var isHurried: Bool { hurryRequested.load(ordering: .acquiring) }

    func requestHurry() { hurryRequested.store(true, ordering: .releasing) }

    /// The first failure is kept: it is why the worker ends.
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
