import LiveActivity
import Numbers
import Testbed
import Testing

@testable import Delivery

/// A timer fires once: never early, and at most one tick after it is due.
@Suite struct TimerWheelTests {
    static let wheelSpanMilliseconds = Int64(TimerWheel.listCount) * TimerWheel.tickMilliseconds

    private func fire(_ wheel: inout TimerWheel, at milliseconds: Int64) -> [UInt32] {
        var due = IndexQueue<ActivityIndex>(limit: 100_000)
        wheel.fire(nowMilliseconds: milliseconds, into: &due)
        var fired: [UInt32] = []
        while let index = due.popFirst() { fired.append(index.rawValue) }
        return fired
    }

    @Test(arguments: 0..<24 as Range<Int64>) func `No timer fires early, or late by more than a tick`(
        offset: Int64
    ) {
        let due = 1_000 + offset
        var wheel = TimerWheel(nowMilliseconds: 1_000)
        wheel.set(3, dueMilliseconds: due)
        var firedAtMilliseconds: Int64?
        for nowMilliseconds in 1_000...1_100 as ClosedRange<Int64> where !fire(&wheel, at: nowMilliseconds).isEmpty {
            #expect(firedAtMilliseconds == nil, "the timer fires once")
            firedAtMilliseconds = nowMilliseconds
        }
        #expect(firedAtMilliseconds.map { (due...due + TimerWheel.tickMilliseconds).contains($0) } == true)
    }

    @Test func `A timer that is already due fires at the end of the present tick`() {
        var wheel = TimerWheel(nowMilliseconds: 1_000)
        wheel.set(1, dueMilliseconds: 3)
        #expect(fire(&wheel, at: 1_000) == [])
        #expect(fire(&wheel, at: 1_008) == [1])
    }

    @Test(arguments: [1, 2, 7]) func `Timers beyond the wheel's span are not lost`(revolutionCount: Int64) {
        let due = revolutionCount * Self.wheelSpanMilliseconds + 123
        var wheel = TimerWheel(nowMilliseconds: 0)
        wheel.set(9, dueMilliseconds: due)
        var nowMilliseconds: Int64 = 0
        var fired: [UInt32] = []
        while fired.isEmpty, nowMilliseconds < due + 1_000 {
            nowMilliseconds += 40
            fired = fire(&wheel, at: nowMilliseconds)
        }
        #expect(fired == [9])
        #expect((due...due + 48).contains(nowMilliseconds))
    }

    @Test func `A cleared timer never fires`() {
        var wheel = TimerWheel(nowMilliseconds: 0)
        for index in 0..<5 as Range<UInt32> { wheel.set(ActivityIndex(rawValue: index), dueMilliseconds: 100) }
        for index in [2, 0, 4, 2, 77] as [ActivityIndex] { wheel.clear(index) }
        #expect(wheel.isSet(2) == false)
        #expect(wheel.isSet(1) == true)
        #expect(wheel.count == 2)
        #expect(fire(&wheel, at: 1_000).sorted() == [1, 3])
        #expect(wheel.count == 0)
    }

    @Test func `A timer that fired may be set again`() {
        var wheel = TimerWheel(nowMilliseconds: 0)
        wheel.set(1, dueMilliseconds: 10)
        #expect(fire(&wheel, at: 16) == [1])
        #expect(wheel.isSet(1) == false)
        wheel.set(1, dueMilliseconds: 30)
        #expect(fire(&wheel, at: 32) == [1])
    }

    @Test func `After a jump of the clock all due timers fire, and no others`() {
        var wheel = TimerWheel(nowMilliseconds: 0)
        for index in 0..<1_000 as Range<UInt32> {
            wheel.set(ActivityIndex(rawValue: index), dueMilliseconds: Int64(index) * 1_000)
        }
        let clockJumpMilliseconds = 17 * Self.wheelSpanMilliseconds
        let expected = (0..<1_000 as Range<UInt32>).filter { Int64($0) * 1_000 <= clockJumpMilliseconds }
        #expect(fire(&wheel, at: clockJumpMilliseconds).sorted() == expected)
        #expect(wheel.count == 1_000 - expected.count)
        #expect(fire(&wheel, at: 1_000_000).count == 1_000 - expected.count)
    }

    @Test func `A clock that stops or goes back fires nothing`() {
        var wheel = TimerWheel(nowMilliseconds: 1_000)
        wheel.set(1, dueMilliseconds: 1_500)
        #expect(fire(&wheel, at: 1_000) == [])
        #expect(fire(&wheel, at: 400) == [])
        #expect(fire(&wheel, at: 1_504) == [1])
    }

    /// Thousands of timers are set and cleared at random, in the wheel and in a dictionary. No timer fires early or
    /// twice, and none is two ticks late.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func `The wheel agrees with a dictionary of due times`(seed: UInt64)
    {
        var random = SplitMix64(simulationSeed: seed)
        var nowMilliseconds = Int64(random.number(0...100_000))
        var wheel = TimerWheel(nowMilliseconds: nowMilliseconds)
        var dueTimes: [UInt32: Int64] = [:]
        for _ in 0..<2_000 {
            for _ in 0..<random.number(0...8) {
                let index = UInt32(random.number(0...4_999))
                if dueTimes[index] != nil {
                    wheel.clear(ActivityIndex(rawValue: index))
                    dueTimes[index] = nil
                } else {
                    let due = nowMilliseconds + Int64(random.number(-50...(random.chance(50) ? 200_000 : 3_000)))
                    wheel.set(ActivityIndex(rawValue: index), dueMilliseconds: due)
                    dueTimes[index] = max(due, nowMilliseconds)
                }
            }
            #expect(wheel.count == dueTimes.count)
            checkNextFire(
                wheel.nextFireAtMilliseconds(ticksSearchedMax: 16),
                earliestDueMilliseconds: dueTimes.values.min(),
                nowMilliseconds: nowMilliseconds
            )
            nowMilliseconds += Int64(random.chance(5) ? random.number(0...100_000) : random.number(0...60))
            let fired = fire(&wheel, at: nowMilliseconds)
            for index in fired {
                #expect(dueTimes[index].map { $0 <= nowMilliseconds } == true, "no timer fires early or twice")
                dueTimes[index] = nil
            }
            let overdue = dueTimes.values.filter { $0 + 2 * TimerWheel.tickMilliseconds <= nowMilliseconds }
            #expect(overdue.isEmpty, "no timer is lost")
        }
    }

    /// Checks that `nextFireAtMilliseconds` is nil if no timer is set. Otherwise the time must be in the future, and
    /// not later than the time at which the first timer fires. A timer fires at the end of the tick in which it is due;
    /// an overdue timer fires at the end of the present tick.
    private func checkNextFire(
        _ nextFireAtMilliseconds: Int64?,
        earliestDueMilliseconds: Int64?,
        nowMilliseconds: Int64
    ) {
        guard let earliestDueMilliseconds else {
            #expect(nextFireAtMilliseconds == nil)
            return
        }
        let tickMilliseconds = TimerWheel.tickMilliseconds
        let latestFireAtMilliseconds =
            (max(earliestDueMilliseconds / tickMilliseconds, nowMilliseconds / tickMilliseconds) + 1) * tickMilliseconds
        #expect(nextFireAtMilliseconds.map { $0 > nowMilliseconds && $0 <= latestFireAtMilliseconds } == true)
    }
}
