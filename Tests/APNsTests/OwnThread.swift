import Foundation
import Synchronization

/// Runs what waits on a thread of its own, so that tests beside it go on; and children of a test are killed if that thread
/// ends before them. It stays in its test's task: what it expects is told as that test's.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let executor = ThreadExecutor()
    defer { executor.stop() }
    return try await withTaskExecutorPreference(executor) { try body() }
}

/// One thread that runs the jobs of one task.
private final class ThreadExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob?]>([])
    private let signal = DispatchSemaphore(value: 0)

    init() {
        Thread { [self] in
            while let job = next() { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
        .start()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        signal.signal()
    }

    /// Lets the thread end behind what is enqueued.
    func stop() {
        jobs.withLock { $0.append(nil) }
        signal.signal()
    }

    private func next() -> UnownedJob? {
        signal.wait()
        return jobs.withLock { $0.removeFirst() }
    }
}
