import Glibc
import Kafka
import Reactor
import Synchronization

/// Thread-safe signals between the worker's control tasks and its threads, such as the request to stop.
final class IntakeSignals: Sendable {
    /// When a stop was first requested, monotonic milliseconds; 0: not yet. All deadlines of the stop count from this
    /// time (R5).
    private let firstStopRequestedAtMilliseconds = Atomic<Int64>(0)
    private let areSettingsOffered = Atomic<Bool>(false)
    private let atomicIsStoppingAtOnce = Atomic<Bool>(false)
    private let lockedFailure = Mutex<(any Error)?>(nil)
    private let stopPhase = Mutex<StopPhase>(.pending([]))

    private enum StopPhase {
        case pending([CheckedContinuation<Void, Never>])
        case stopped
    }

    var isStopRequested: Bool { stopRequestedAtMilliseconds != nil }

    /// When a stop was first requested, monotonic milliseconds; nil: not yet.
    var stopRequestedAtMilliseconds: Int64? {
        let requestedAtMilliseconds = firstStopRequestedAtMilliseconds.load(ordering: .acquiring)
        return requestedAtMilliseconds == 0 ? nil : requestedAtMilliseconds
    }

    func requestStop() {
        let nowMilliseconds = EventLoop.monotonicMilliseconds
        _ = firstStopRequestedAtMilliseconds.compareExchange(
            expected: 0,
            desired: max(1, nowMilliseconds),
            ordering: .acquiringAndReleasing
        )
    }

    /// Says that reloaded settings are in the lanes' mailboxes. The Kafka thread then orders the lanes to take them,
    /// because only this thread gives orders.
    func offerSettings() { areSettingsOffered.store(true, ordering: .releasing) }

    /// Returns whether settings were offered since this method was last called.
    func takeSettingsOffer() -> Bool {
        areSettingsOffered.load(ordering: .relaxed) && areSettingsOffered.exchange(false, ordering: .acquiring)
    }

    /// Whether a second stop signal has come. Then the worker stops without waiting for records in flight.
    var isStoppingAtOnce: Bool { atomicIsStoppingAtOnce.load(ordering: .acquiring) }

    func requestStopAtOnce() { atomicIsStoppingAtOnce.store(true, ordering: .releasing) }

    /// Keeps the first failure as the reason why the worker ends, and requests a stop.
    func fail(_ error: any Error) {
        lockedFailure.withLock { if $0 == nil { $0 = error } }
        requestStop()
    }

    var failure: (any Error)? { lockedFailure.withLock { $0 } }

    /// Notes that the lanes have ended and the Kafka clients are closed. The Kafka thread calls this last.
    func noteStopped() {
        let continuations = stopPhase.withLock { stopPhase -> [CheckedContinuation<Void, Never>] in
            guard case .pending(let continuations) = stopPhase else { return [] }
            stopPhase = .stopped
            return continuations
        }
        for continuation in continuations { continuation.resume() }
    }

    func waitUntilStopped() async {
        await withCheckedContinuation { continuation in
            let hasStopped = stopPhase.withLock { stopPhase in
                guard case .pending(let continuations) = stopPhase else { return true }
                stopPhase = .pending(continuations + [continuation])
                return false
            }
            if hasStopped { continuation.resume() }
        }
    }
}
