import Synchronization

/// Rings when apps have posted tokens: what those wait for who read registrations by long polling.
final class RegistrationBell: Sendable {
    /// Readers that may wait at one time.
    static let waitersMax = 1_024

    private struct Waiter {
        var cursor: Int
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var count = 0
        var nextIdentifier = 0
        var waiters: [Int: Waiter] = [:]
        /// Those whose time was over before they had begun to wait.
        var expired: Set<Int> = []
    }

    private let state = Mutex(State())

    /// So many registrations have been posted. From the service's threads.
    func ring(count: Int) {
        let woken = state.withLock { state in
            // Another thread may have announced more already.
            state.count = max(state.count, count)
            let identifiers = state.waiters.filter { $0.value.cursor != state.count }.keys
            return identifiers.compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Wakes everybody: the registrations are gone, or the service ends.
    func reset() {
        let woken = state.withLock { state in
            state.count = 0
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Returns when there is more than the cursor has seen, or the time is over.
    func wait(cursor: Int, milliseconds: Int) async {
        let identifier = state.withLock { state in
            state.nextIdentifier += 1
            return state.nextIdentifier
        }
        let timeout = Task {
            do {
                try await Task.sleep(for: .milliseconds(milliseconds))
            } catch {
                return
            }
            self.giveUp(identifier)
        }
        await withCheckedContinuation { continuation in
            let isWaiting = state.withLock { state in
                guard state.expired.remove(identifier) == nil, state.count == cursor,
                    state.waiters.count < Self.waitersMax
                else { return false }
                state.waiters[identifier] = Waiter(cursor: cursor, continuation: continuation)
                return true
            }
            if !isWaiting { continuation.resume() }
        }
        timeout.cancel()
        await timeout.value
        state.withLock { _ = $0.expired.remove(identifier) }
    }

    private func giveUp(_ identifier: Int) {
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: identifier)
            if waiter == nil { state.expired.insert(identifier) }
            return waiter
        }
        waiter?.continuation.resume()
    }
}
