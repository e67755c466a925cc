import Testing

@testable import CausewayWorker

/// The deadlines of a stop, all counted from the signal. (R5)
@Suite struct StopScheduleTests {
    @Test func `All steps of stopping fit into the drain time after the signal`() {
        let usualSchedule = StopSchedule(requestedAtMilliseconds: 1_000, drainMilliseconds: 20_000)
        #expect(usualSchedule.drainEndMilliseconds == 16_000, "the last 5 s are for closing")
        #expect(usualSchedule.consumerEndMilliseconds == 20_000)
        #expect(usualSchedule.flushEndMilliseconds == 20_500)
        #expect(usualSchedule.producerEndMilliseconds == 21_000)
        for drain in [0, 1, 100, 1_000, 3_999, 600_000] as [Int64] {
            let schedule = StopSchedule(requestedAtMilliseconds: 0, drainMilliseconds: drain)
            #expect(schedule.drainEndMilliseconds * 4 >= drain * 3)
            #expect(schedule.drainEndMilliseconds <= schedule.consumerEndMilliseconds)
            #expect(schedule.consumerEndMilliseconds <= schedule.flushEndMilliseconds)
            #expect(schedule.flushEndMilliseconds <= schedule.producerEndMilliseconds)
            #expect(schedule.producerEndMilliseconds == drain)
        }
    }

    @Test func `Each step of closing has some time`() {
        func computeRemainingMilliseconds(at nowMilliseconds: Int64, isStoppingAtOnce: Bool = false) -> Int64 {
            StopSchedule.computeRemainingMilliseconds(
                until: 20_000,
                nowMilliseconds: nowMilliseconds,
                isStoppingAtOnce: isStoppingAtOnce
            )
        }
        #expect(computeRemainingMilliseconds(at: 15_000) == 5_000)
        #expect(computeRemainingMilliseconds(at: 19_900) == 500)
        #expect(computeRemainingMilliseconds(at: 90_000) == 500)
        #expect(computeRemainingMilliseconds(at: 15_000, isStoppingAtOnce: true) == 500)
    }
}
