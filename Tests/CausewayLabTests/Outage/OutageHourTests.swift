import LiveActivity
import Testing

@testable import CausewayLab

@Suite("An hour without one app's host")
struct OutageHourTests {
    private static let schedule = OutageHourSchedule(
        beforeOutageMinutes: 1,
        outageMinutes: 4,
        afterHostReturnMinutes: 1,
        activityCount: 2
    )

    /// Returns six minutes of measurements, with an outage from the second to the fifth minute.
    private static func makeMeasuredMinutes(_ change: (inout OutageMinute) -> Void = { _ in }) -> [OutageMinute] {
        (1...6)
            .map { number in
                var minute = OutageMinute(number: number, isHostUnreachable: (2...5).contains(number))
                for milliseconds in 1...100 { minute.freshness.add(milliseconds: Int64(milliseconds)) }
                minute.longestCommitWaitMilliseconds = 8_000
                minute.residentBytes = 100 << 20
                change(&minute)
                return minute
            }
    }

    private func brokenPromises(
        _ measuredMinutes: [OutageMinute] = makeMeasuredMinutes(),
        pushes: [String: [Bool]] = ["a": [true], "b": [true]],
        outdatedActivityCount: Int = 0,
        failedCommandCount: Int = 0
    ) -> [String] {
        OutageHourChecker(
            schedule: Self.schedule,
            measuredMinutes: measuredMinutes,
            newestStateFlagsByActivity: pushes,
            outdatedActivityCount: outdatedActivityCount,
            failedCommandCount: failedCommandCount
        )
        .brokenPromises
    }

    @Test func `A good run breaks no promise`() {
        #expect(brokenPromises() == [])
    }

    @Test func `Each broken promise is reported`() {
        let slowMinutes = Self.makeMeasuredMinutes { minute in
            guard minute.number == 3 else { return }
            for _ in 1...10 { minute.freshness.add(milliseconds: 9_000) }
        }
        #expect(brokenPromises(slowMinutes) == ["in 1 minutes 99 of 100 healthy pushes took over 2500 ms"])
        let minutesWithGap = Self.makeMeasuredMinutes { if $0.number == 4 { $0.freshness = DurationHistogram() } }
        #expect(brokenPromises(minutesWithGap).count == 1, "none came")
        let uncommittedMinutes = Self.makeMeasuredMinutes {
            if $0.number == 5 { $0.longestCommitWaitMilliseconds = 60_001 }
        }
        #expect(brokenPromises(uncommittedMinutes) == ["a record waited 60001 ms for its commit"])
        let growingMinutes = Self.makeMeasuredMinutes { $0.residentBytes = Int64(100 + $0.number * 3) << 20 }
        #expect(brokenPromises(growingMinutes) == ["resident memory grew from 109 to 115 MiB"])
        #expect(brokenPromises(outdatedActivityCount: 2) == ["2 phones do not show the newest state"])
        #expect(brokenPromises(failedCommandCount: 1) == ["1 commands have the outcome failed"])
    }

    @Test(arguments: [["a": [true]], ["a": [true], "b": [true, true]], ["a": [true], "b": [false]]])
    func `Each activity must get exactly one push, the newest`(pushes: [String: [Bool]]) {
        #expect(brokenPromises(pushes: pushes) == ["1 affected activities did not get exactly one push, the newest"])
    }

    @Test func `A minute is one line`() {
        var minute = Self.makeMeasuredMinutes()[1]
        minute.residentBytes = 151 << 19
        #expect(minute.tableLine == "2\taway\t0\t100\t50\t99\t100\t0\t8000\t0\t75.5\t0.0")
        #expect(minute.tableLine.split(separator: "\t").count == OutageMinute.tableHeader.split(separator: "\t").count)
    }

    @Test func `The affected app stops before its host returns`() {
        let outage = Self.schedule.outage
        #expect(outage.apps.map(\.durationMilliseconds) == [295_000, 360_000])
        #expect(outage.steps.map(\.dueMilliseconds) == [60_000, 300_000])
    }

    @Test func `Pushes that the host reads from old sockets do not count`() {
        var pushes = PushesAfterHostReturn()
        func makePush(_ timestamp: Int64) -> OutageHistory.Push {
            OutageHistory.Push(arrivedAtMilliseconds: 0, status: 200, activity: "a", timestamp: timestamp)
        }
        pushes.add(makePush(1_000), hasNewestState: true)
        pushes.noteHostOutage(atSeconds: 1_001)
        pushes.add(makePush(1_001), hasNewestState: true)
        pushes.noteHostReturn()
        pushes.add(makePush(1_001), hasNewestState: false)
        #expect(pushes.newestStateFlagsByActivity == [:])
        pushes.add(makePush(1_002), hasNewestState: false)
        pushes.add(makePush(1_300), hasNewestState: true)
        #expect(pushes.newestStateFlagsByActivity == ["a": [false, true]])
    }

    @Test func `A push is recognized by its state`() {
        var recentCommands = RecentCommands()
        for number in 1...100 { recentCommands.append(makeCommand(UInt64(number))) }
        let newestPush = OutageHistory.Push(
            arrivedAtMilliseconds: 0,
            status: 200,
            activity: "a",
            stateDigest: "state 100"
        )
        #expect(recentCommands.command(of: newestPush)?.version.sequence == 100)
        #expect(recentCommands.newestCommand(of: "a")?.version.sequence == 100)
        let forgottenPush = OutageHistory.Push(
            arrivedAtMilliseconds: 0,
            status: 200,
            activity: "a",
            stateDigest: "state 1"
        )
        #expect(recentCommands.command(of: forgottenPush) == nil)
    }

    private func makeCommand(_ number: UInt64) -> OutageHistory.Command {
        OutageHistory.Command(
            app: "match",
            activity: "a",
            event: .update,
            version: Version(timestamp: 1_790_000_000, sequence: number),
            stateDigest: "state \(number)",
            producedAtMilliseconds: 0
        )
    }
}
