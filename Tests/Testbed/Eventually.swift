import Foundation

/// The maximum time for which a test waits for an event. An event comes much sooner, even on the slowest machine.
public let eventWaitMax: Duration = .seconds(180)

/// An expected event did not come within its limit.
public struct Timeout: Error, CustomStringConvertible {
    public var awaitedEvent: String

    public init(awaiting awaitedEvent: String) { self.awaitedEvent = awaitedEvent }

    public var description: String { "timed out waiting for \(awaitedEvent)" }
}

/// Polls until the condition holds. Throws a ``Timeout`` after the limit.
///
/// Use this only for a change that sends no event to the test: of a key in Redis that another process writes, or of
/// another process's metrics, log or signal mask. In all other cases, a test waits for the event.
public func eventually(
    _ awaitedEvent: @autoclosure () -> String,
    within limit: Duration = eventWaitMax,
    every interval: Duration = .milliseconds(20),
    until condition: () throws -> Bool
) throws {
    try pollUntilPresent(awaitedEvent(), within: limit, every: interval) { try condition() ? () : nil }
}

/// Polls until the value is not nil, and returns it.
@discardableResult
public func pollUntilPresent<Value>(
    _ awaitedEvent: @autoclosure () -> String,
    within limit: Duration = eventWaitMax,
    every interval: Duration = .milliseconds(20),
    _ read: () throws -> Value?
) throws -> Value {
    let deadline = ContinuousClock.now + limit
    while true {
        if let value = try read() { return value }
        guard ContinuousClock.now < deadline else { throw Timeout(awaiting: awaitedEvent()) }
        Thread.sleep(forTimeInterval: interval / .seconds(1))
    }
}

/// Polls a condition that a task reads, such as the simulator's statistics. It blocks no thread.
public func eventuallyInTask(
    _ awaitedEvent: @autoclosure () -> String,
    within limit: Duration = eventWaitMax,
    every interval: Duration = .milliseconds(5),
    until condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw Timeout(awaiting: awaitedEvent()) }
        try await Task.sleep(for: interval)
    }
}
