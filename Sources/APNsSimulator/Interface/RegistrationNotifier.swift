import Synchronization

/// Notifies readers that wait for registrations by long polling.
final class RegistrationNotifier: Sendable {
    /// The maximum number of readers that wait at a time. The call of a further reader fails with `limitReached`.
    static let waitersMax = 1_024

    private struct Waiter {
        var cursor: Int
        var continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var registrationCount = 0
        /// Whether the service is stopping or has stopped. A reader then does not wait.
        var isClosed = false
        var lastWaiterIdentifier = 0
        var waiters: [Int: Waiter] = [:]
        /// Readers whose deadline passed while they were not in `waiters`. The reader's own call of
        /// `awaitRegistrations` removes the reader from this set. A reader gets into the set in two cases:
        /// - The reader had been woken, or had not needed to wait.
        /// - `awaitRegistrations` had not added the reader to `waiters` yet. It must not add the reader any more,
        ///   because no later timeout would wake the reader. It returns at once instead.
        var identifiersPastDeadline: Set<Int> = []
    }

    private let state = Mutex(State())

    /// The number of registrations at the last call of `notify`. A service thread compares this number with the present
    /// number after every read from a socket, and after every call of `Simulator.withDevices`. If the numbers differ,
    /// the thread calls `notify`.
    let notifiedRegistrationCount = Atomic<Int>(0)

    /// Wakes each reader if its cursor differs from `registrationCount`, the number of registrations posted so far.
    ///
    /// Call this method only from a closure of `SharedDeviceModel.withModel`. Such closures run one after the other, so
    /// the last call has the newest number.
    func notify(registrationCount: Int) {
        notifiedRegistrationCount.store(registrationCount, ordering: .relaxed)
        let wokenWaiters = state.withLock { state in
            state.registrationCount = registrationCount
            let identifiers = state.waiters.filter { $0.value.cursor != state.registrationCount }.keys
            return identifiers.compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in wokenWaiters { waiter.continuation.resume(returning: true) }
    }

    /// Wakes all readers because the service ends. Later readers do not wait.
    func close() {
        let wokenWaiters = state.withLock { state in
            state.isClosed = true
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in wokenWaiters { waiter.continuation.resume(returning: true) }
    }

    /// Waits until the number of registrations differs from the cursor, the time has passed, or the service ends. Then
    /// returns true. If `waitersMax` readers already wait, returns false at once.
    func awaitRegistrations(since cursor: Int, timeoutMilliseconds: Int) async -> Bool {
        let identifier = state.withLock { state in
            state.lastWaiterIdentifier += 1
            return state.lastWaiterIdentifier
        }
        let timeout = Task {
            do {
                try await Task.sleep(for: .milliseconds(timeoutMilliseconds))
            } catch {
                return
            }
            self.expireWaiter(identifier)
        }
        let isAllowed = await withCheckedContinuation { continuation in
            let isAllowed: Bool? = state.withLock { state in
                if state.identifiersPastDeadline.remove(identifier) != nil || state.registrationCount != cursor
                    || state.isClosed
                {
                    return true
                }
                if state.waiters.count >= Self.waitersMax { return false }
                state.waiters[identifier] = Waiter(cursor: cursor, continuation: continuation)
                return nil
            }
            if let isAllowed { continuation.resume(returning: isAllowed) }
        }
        timeout.cancel()
        await timeout.value
        state.withLock { _ = $0.identifiersPastDeadline.remove(identifier) }
        return isAllowed
    }

    /// Ends the wait of a reader whose deadline has passed.
    private func expireWaiter(_ identifier: Int) {
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: identifier)
            if waiter == nil { state.identifiersPastDeadline.insert(identifier) }
            return waiter
        }
        waiter?.continuation.resume(returning: true)
    }
}
