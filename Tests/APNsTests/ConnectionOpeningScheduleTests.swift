import Testbed
import Testing

@testable import APNs

/// The time between the openings of connections. A pool opens one connection after the other.
@Suite(.ownThread) struct ConnectionOpeningScheduleTests {
    private func makeSchedule(_ adjust: (inout PoolConfiguration) -> Void = { _ in }) throws
        -> ConnectionOpeningSchedule
    {
        var configuration = try PoolFixture.configuration(port: 443)
        configuration.openingIntervalMilliseconds = 2_000
        configuration.backoffBaseMilliseconds = 200
        configuration.backoffJitterMillisecondsMax = 1_000
        adjust(&configuration)
        return ConnectionOpeningSchedule(configuration)
    }

    @Test func `The first connections of many pools are spread over time`() throws {
        let waits = try (0..<500).map { _ in try makeSchedule().waitMilliseconds(nowMilliseconds: 5_000) }
        #expect(waits.allSatisfy { (0...250).contains($0) })
        #expect(Set(waits).count > 50)
    }

    /// A worker with eight lanes and five apps in two environments has 80 pools, which all start at once.
    @Test func `The first connections of a worker are opened one by one, within two seconds`() throws {
        let budget = ConnectionBudget(poolCount: 80)
        let waits = try (0..<80)
            .map { _ in
                var schedule = try makeSchedule()
                schedule.reserveFirstOpening(from: budget, nowMilliseconds: 5_000)
                return schedule.waitMilliseconds(nowMilliseconds: 5_000)
            }
        for (index, wait) in waits.enumerated() {
            let reservedMilliseconds = Int64(index) * 25
            #expect((reservedMilliseconds...reservedMilliseconds + 250).contains(wait))
        }
        // The pool of a worker that is long running does not wait for the pools before it.
        #expect(budget.reserveFirstOpening(nowMilliseconds: 60_000) == 60_000)
        #expect(budget.reserveFirstOpening(nowMilliseconds: 60_000) == 60_025)
    }

    @Test func `The pools of an only app open their first connections 50 ms apart`() {
        let budget = ConnectionBudget(poolCount: 16)
        let times = (0..<16).map { _ in budget.reserveFirstOpening(nowMilliseconds: 5_000) }
        #expect(times == (Int64(0)..<16).map { 5_000 + $0 * 50 })
    }

    @Test func `The next connection is opened about two seconds after the last one`() throws {
        var schedule = try makeSchedule()
        schedule.beginAttempt(nowMilliseconds: 10_000)
        let waits = (0..<500).map { _ in schedule.waitMilliseconds(nowMilliseconds: 10_500) }
        // Two openings are 2 s ± 25 % apart. Half a second has passed since the first one.
        #expect(waits.allSatisfy { (1_000...2_000).contains($0) })
        #expect(Set(waits).count > 100)
        #expect(schedule.waitMilliseconds(nowMilliseconds: 60_000) == 0)
    }

    @Test func `After failures a pool waits longer, and for a random time`() throws {
        var schedule = try makeSchedule { $0.openingIntervalMilliseconds = 0 }
        schedule.beginAttempt(nowMilliseconds: 0)
        var longestWaits: [Int64] = []
        for _ in 0..<5 {
            schedule.lengthenBackoff()
            let waits = (0..<500).map { _ in schedule.waitMilliseconds(nowMilliseconds: 0) }
            #expect(waits.allSatisfy { $0 >= 100 })
            #expect(Set(waits).count > 50)
            longestWaits.append(waits.max() ?? 0)
        }
        for (wait, window) in zip(longestWaits, [200, 400, 800, 1_000, 1_000] as [Int64]) {
            #expect((100 + window / 2...100 + window).contains(wait))
        }
        schedule.noteSuccess()
        #expect(schedule.waitMilliseconds(nowMilliseconds: 0) == 0)
    }
}
