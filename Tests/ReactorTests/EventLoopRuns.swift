import Reactor
import Testing

/// Runs the loop for this many milliseconds of the loop's clock.
func runLoop(_ loop: EventLoop, forMilliseconds duration: Int64) {
    loop.refreshClock()
    let end = loop.nowMilliseconds + duration
    while loop.nowMilliseconds < end {
        loop.runIteration(waitMilliseconds: Int32(end - loop.nowMilliseconds))
    }
}
