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
        /// Readers whose deadline passed before `wait` added them to `waiters`: `wait` must not add them any more,
        /// because nothing would wake them. Also, for a moment, readers that were woken just before their deadline.
        var expiredWaiterIdentifiers: Set<Int> = []
    }

    private let state = Mutex(State())

    /// The number of registrations of which the readers were last notified. After every read from a socket and after
    /// every call of `Simulator.withDevices`, the service's thread compares this number with the present one, and
    /// notifies the readers of new registrations.
    let notifiedRegistrationCount = Atomic<Int>(0)

    /// Notifies the readers of the number of posted registrations. A service thread calls this while no other thread
    /// can use the devices. So the number of the last call is also the newest.
    func notify(count: Int) {
        notifiedRegistrationCount.store(count, ordering: .relaxed)
        let wokenWaiters = state.withLock { state in
            state.registrationCount = count
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

    /// Waits until the number of registrations differs from the cursor, the time has passed, or the service ends.
    /// Returns true then. Returns false at once if `waitersMax` readers already wait.
    func wait(cursor: Int, milliseconds: Int) async -> Bool {
        let identifier = state.withLock { state in
            state.lastWaiterIdentifier += 1
            return state.lastWaiterIdentifier
        }
        let timeout = Task {
            do {
                try await Task.sleep(for: .milliseconds(milliseconds))
            } catch {
                return
            }
            self.expireWaiter(identifier)
        }
        let isAllowed = await withCheckedContinuation { continuation in
            let isAllowed: Bool? = state.withLock { state in
                if state.expiredWaiterIdentifiers.remove(identifier) != nil || state.registrationCount != cursor
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
        state.withLock { _ = $0.expiredWaiterIdentifiers.remove(identifier) }
        return isAllowed
    }

    private func expireWaiter(_ identifier: Int) {
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: identifier)
            if waiter == nil { state.expiredWaiterIdentifiers.insert(identifier) }
            return waiter
        }
        waiter?.continuation.resume(returning: true)
    }
}
