import Delivery
import Testbed

extension Simulation {
    /// Chooses the error of a worker's wall clock. If the workers correct their clocks, returns the error that remains
    /// after the correction.
    func chooseClockSkewMilliseconds() -> Int64 {
        let skewMax = parameters.clockSkewMillisecondsMax
        guard skewMax > 0 else { return 0 }
        guard parameters.correctsClocks else { return Int64(random.number(-skewMax...skewMax)) }
        // A copy of the generator draws these numbers, so that the later random numbers of each seed stay the same.
        var randomCopy = random
        let skewMilliseconds = Int64(randomCopy.number(-skewMax...skewMax))
        let durationMilliseconds = randomCopy.number(0...2 * Int(ClockCorrection.toleranceMilliseconds))
        var correction = ClockCorrection()
        correction.update(
            ClockCorrection.Reading(
                systemMilliseconds: now + skewMilliseconds,
                bootMilliseconds: now,
                durationMilliseconds: Int64(durationMilliseconds),
                serverMilliseconds: [now + Int64(randomCopy.number(0...durationMilliseconds))]
            )
        )
        return skewMilliseconds + correction.addedMilliseconds
    }
}
