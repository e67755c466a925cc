import Synchronization

/// Notifies readers that wait for registrations by long polling.
final class RegistrationNotifier: Sendable {
    /// The maximum number of readers that wait at a time. The call of a further reader fails with `limitReached`.
    static let waitingReadersMax = 1_024

    private struct WaitingReader {
        var cursor: Int
        var continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var registrationCount = 0
        /// Whether the service is stopping or has stopped. A reader then does not wait.
        var isClosed = false
        var lastReaderIdentifier = 0
        var waitingReaders: [Int: WaitingReader] = [:]
        /// Readers whose deadline passed while they were not in `waitingReaders`. If `awaitRegistrations` had not added
        /// the reader yet, it finds the reader here and does not begin to wait, because no later timeout would wake the
        /// reader. If the reader had already been woken, `awaitRegistrations` only removes it from this set.
        var identifiersPastDeadline: Set<Int> = []
    }

    private let state = Mutex(State())

    /// The number of registrations at the last call of `notify`. After every read from a socket, and after every call
    /// of `Simulator.withDevices`, a service thread calls `notify` again if the number has changed.
    let notifiedRegistrationCount = Atomic<Int>(0)

    /// Wakes each reader whose cursor differs from `registrationCount`, the number of registrations posted so far.
    ///
    /// Call this method only from a closure of `SharedDeviceModel.withModel`. Such closures run one after the other, so
    /// the last call has the newest number.
    func notify(registrationCount: Int) {
        notifiedRegistrationCount.store(registrationCount, ordering: .relaxed)
        let wokenReaders = state.withLock { state in
            state.registrationCount = registrationCount
            let identifiers = state.waitingReaders.filter { $0.value.cursor != state.registrationCount }.keys
            return identifiers.compactMap { state.waitingReaders.removeValue(forKey: $0) }
        }
        for reader in wokenReaders { reader.continuation.resume(returning: true) }
    }

    /// Wakes all readers because the service ends. Later readers do not wait.
    func close() {
        let wokenReaders = state.withLock { state in
            state.isClosed = true
            defer { state.waitingReaders = [:] }
            return Array(state.waitingReaders.values)
        }
        for reader in wokenReaders { reader.continuation.resume(returning: true) }
    }

    /// Waits until the number of registrations differs from the cursor, the time has passed, or the service ends; then
    /// returns true. Returns false at once if it would have to wait while `waitingReadersMax` readers wait already.
    func awaitRegistrations(since cursor: Int, timeoutMilliseconds: Int) async -> Bool {
        let identifier = state.withLock { state in
            state.lastReaderIdentifier += 1
            return state.lastReaderIdentifier
        }
        let timeout = Task {
            do {
                try await Task.sleep(for: .milliseconds(timeoutMilliseconds))
            } catch {
                return
            }
            self.endWaitAfterDeadline(of: identifier)
        }
        let isAllowed = await withCheckedContinuation { continuation in
            let isAllowed: Bool? = state.withLock { state in
                if state.identifiersPastDeadline.remove(identifier) != nil || state.registrationCount != cursor
                    || state.isClosed
                {
                    return true
                }
                if state.waitingReaders.count >= Self.waitingReadersMax { return false }
                state.waitingReaders[identifier] = WaitingReader(cursor: cursor, continuation: continuation)
                return nil
            }
            if let isAllowed { continuation.resume(returning: isAllowed) }
        }
        timeout.cancel()
        await timeout.value
        state.withLock { _ = $0.identifiersPastDeadline.remove(identifier) }
        return isAllowed
    }

    /// Ends the wait of a reader whose deadline has passed. If the reader is not waiting, adds it to
    /// `identifiersPastDeadline`.
    private func endWaitAfterDeadline(of identifier: Int) {
        let reader = state.withLock { state in
            let reader = state.waitingReaders.removeValue(forKey: identifier)
            if reader == nil { state.identifiersPastDeadline.insert(identifier) }
            return reader
        }
        reader?.continuation.resume(returning: true)
    }
}
