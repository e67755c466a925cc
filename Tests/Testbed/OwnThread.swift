import Foundation
import Synchronization
import Testing

/// Runs blocking code on a separate thread, so that parallel tests continue. Expectations in the code count for the
/// test that calls this function.
///
/// When the code returns, the thread ends. The kernel then kills the programs that the code has started with
/// `setpriv --pdeathsig`.
public func onOwnThread<Value: Sendable>(_ body: @Sendable () async throws -> Value) async throws -> Value {
    let executor = ThreadExecutor()
    defer { executor.stop() }
    return try await withTaskExecutorPreference(executor) { try await body() }
}

/// Runs each test of a suite on a thread of its own.
///
/// Swift's tasks share one thread for each processor. A test that blocks such a thread, or computes on it for
/// long, delays every test that waits for an event.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        try await onOwnThread { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// A trait for suites whose tests block or compute for long, and wait for no task.
    public static var ownThread: Self { Self() }
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

    /// Lets the thread end after the enqueued jobs.
    func stop() {
        jobs.withLock { $0.append(nil) }
        signal.signal()
    }

    private func next() -> UnownedJob? {
        signal.wait()
        return jobs.withLock { $0.removeFirst() }
    }
}
