import Reactor
import Testing

extension EventLoop {
    /// How long a test turns its loop for an expected event: 10 MiB through TLS, or a hundred thousand pushes, take time in a debug build
    /// on a busy machine.
    public static let turnLimitMilliseconds: Int64 = 300_000

    /// Turns until the condition holds. Between events the loop is blocked in the kernel.
    ///
    /// - Parameter step: called before each turn.
    /// - Returns: false if the condition does not hold within the limit.
    public func turn(
        withinMilliseconds limit: Int64 = turnLimitMilliseconds,
        waitMilliseconds: Int32 = 100,
        step: () -> Void = {},
        until condition: () -> Bool
    ) -> Bool {
        refreshClock()
        let end = nowMilliseconds + limit
        while !condition() {
            guard nowMilliseconds < end else { return false }
            step()
            turn(waitMilliseconds: waitMilliseconds)
        }
        return true
    }
}

/// Turns until the condition holds. Fails the test and returns if it does not hold within the limit.
public func turn(
    _ loop: EventLoop,
    until condition: () -> Bool,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    if !loop.turn(until: condition) {
        Issue.record("the condition did not hold in time", sourceLocation: sourceLocation)
    }
}
