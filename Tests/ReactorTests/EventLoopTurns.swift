import Reactor
import Testing

/// Turns until the condition holds. Fails the test and returns after five minutes: 10 MiB through TLS take time in a debug build on a busy
/// machine.
func turn(
    _ loop: EventLoop,
    until condition: () -> Bool,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    loop.refreshClock()
    let limit = loop.nowMilliseconds + 300_000
    while !condition() {
        guard loop.nowMilliseconds < limit else {
            Issue.record("the condition did not come about in time", sourceLocation: sourceLocation)
            return
        }
        loop.turn(waitMilliseconds: 100)
    }
}

/// Turns for this number of milliseconds of the loop's clock.
func turn(_ loop: EventLoop, forMilliseconds duration: Int64) {
    loop.refreshClock()
    let end = loop.nowMilliseconds + duration
    while loop.nowMilliseconds < end {
        loop.turn(waitMilliseconds: Int32(end - loop.nowMilliseconds))
    }
}
