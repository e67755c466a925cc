import Reactor
import Testing

extension EventLoop {
    /// The maximum time for which a test waits for an event. It is long, because 10 MiB through TLS or 100,000 pushes
    /// take long in a debug build on a busy machine.
    public static let eventWaitMillisecondsMax: Int64 = 300_000

    /// Runs the loop until the condition holds. Between events the loop waits in the kernel.
    ///
    /// - Parameter step: runs before each iteration.
    /// - Returns: false if the condition does not hold within the time limit.
    public func run(
        withinMilliseconds limit: Int64 = eventWaitMillisecondsMax,
        waitMilliseconds: Int32 = 100,
        step: () -> Void = {},
        until condition: () -> Bool
    ) -> Bool {
        refreshClock()
        let end = nowMilliseconds + limit
        while !condition() {
            guard nowMilliseconds < end else { return false }
            step()
            runIteration(waitMilliseconds: waitMilliseconds)
        }
        return true
    }
}

/// Runs the loop until the condition holds. Fails the test if it does not hold within the time limit.
public func runLoop(
    _ loop: EventLoop,
    until condition: () -> Bool,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    if !loop.run(until: condition) {
        Issue.record("the condition did not hold in time", sourceLocation: sourceLocation)
    }
}
