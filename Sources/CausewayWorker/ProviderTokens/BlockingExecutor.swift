import Dispatch

/// Runs the jobs of an actor that blocks, one after another, outside Swift's thread pool. The pool has only as many
/// threads as processors, so no job may block one of them.
final class BlockingExecutor: SerialExecutor {
    private let queue: DispatchQueue

    init(label: String) {
        queue = DispatchQueue(label: label)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
