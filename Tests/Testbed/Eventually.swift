import Foundation

/// The maximum time of a test for an expected event. An event comes much sooner, even on the slowest machine.
public let eventLimit: Duration = .seconds(180)

/// An expected event did not come within its limit.
public struct Timeout: Error, CustomStringConvertible {
    public var what: String

    public init(what: String) { self.what = what }

    public var description: String { "timed out waiting for \(what)" }
}

/// Polls until the condition holds. Throws a ``Timeout`` after the limit.
///
/// Use this only for states that announce no change, such as another process's keys in Redis, its metrics, its log or
/// its signal mask. For everything else a test waits for the event.
public func eventually(
    _ what: @autoclosure () -> String,
    within limit: Duration = eventLimit,
    every interval: Duration = .milliseconds(20),
    until condition: () throws -> Bool
) throws {
    try pollUntilPresent(what(), within: limit, every: interval) { try condition() ? () : nil }
}

/// Polls until the value is not nil, and returns it.
@discardableResult
public func pollUntilPresent<Value>(
    _ what: @autoclosure () -> String,
    within limit: Duration = eventLimit,
    every interval: Duration = .milliseconds(20),
    _ ask: () throws -> Value?
) throws -> Value {
    let deadline = ContinuousClock.now + limit
    while true {
        if let value = try ask() { return value }
        guard ContinuousClock.now < deadline else { throw Timeout(what: what()) }
        Thread.sleep(forTimeInterval: interval / .seconds(1))
    }
}

/// Polls a condition that a task reads, such as the simulator's statistics. It blocks no thread.
public func eventuallyInTask(
    _ what: @autoclosure () -> String,
    within limit: Duration = eventLimit,
    every interval: Duration = .milliseconds(5),
    until condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw Timeout(what: what()) }
        try await Task.sleep(for: interval)
    }
}
