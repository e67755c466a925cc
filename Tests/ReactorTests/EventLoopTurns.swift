import Reactor
import Testing

/// Turns the loop for this many milliseconds of the loop's clock.
func turn(_ loop: EventLoop, forMilliseconds duration: Int64) {
    loop.refreshClock()
    let end = loop.nowMilliseconds + duration
    while loop.nowMilliseconds < end {
        loop.runTurn(waitMilliseconds: Int32(end - loop.nowMilliseconds))
    }
}
