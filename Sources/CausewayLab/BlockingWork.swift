import Foundation

/// Runs work that blocks its thread.
enum BlockingWork {
    /// Runs `body` on its own thread and waits for the result. A blocking call must not use a thread of Swift's thread
    /// pool, which may have a single thread.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: Result { try body() }) }
        }
        return try result.get()
    }
}
