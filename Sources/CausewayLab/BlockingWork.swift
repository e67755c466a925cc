import Foundation

/// Work that blocks its thread.
enum BlockingWork {
    /// Runs it on a thread of its own and waits for it, because the threads that run tasks may be as few as one.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: Result { try body() }) }
        }
        return try result.get()
    }
}
