import Glibc

/// The devices behind the service, shared by its threads.
///
/// With one thread, all accesses to the model run on that thread without a lock. With several threads, a lock
/// makes each access atomic. The threads' accesses come in any order.
final class SharedDeviceModel: @unchecked Sendable {
    private let lock: UnsafeMutablePointer<pthread_mutex_t>?
    private var model: DeviceModel

    /// - Parameter isShared: whether several threads use the model, so that it needs a lock.
    init(model: consuming DeviceModel, isShared: Bool) {
        self.model = model
        guard isShared else {
            lock = nil
            return
        }
        let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        lock = mutex
    }

    deinit {
        guard let lock else { return }
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    /// Runs a closure on the model. Call it only on the service's threads.
    @inline(__always)
    func withModel<Result>(_ body: (inout DeviceModel) -> Result) -> Result {
        if let lock { pthread_mutex_lock(lock) }
        defer {
            if let lock { pthread_mutex_unlock(lock) }
        }
        return body(&model)
    }
}
