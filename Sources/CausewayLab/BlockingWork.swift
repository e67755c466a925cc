import Foundation

/// Runs work that blocks its thread.
enum BlockingWork {
    /// Runs `body` on its own thread and waits for the result. A call that blocks must not use a thread of Swift's
    /// pool, which may have only one.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: Result { try body() }) }
        }
        return try result.get()
    }
}
