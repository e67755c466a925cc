import Testbed
import Testing

@testable import CausewayLab

@Suite("The compressed time line", .ownThread)
struct TimelineTests {
    private let season: Season
    private let timeline: Timeline

    init() throws {
        season = try SeasonData.season.get()
        timeline = Timeline(season.matches, durationMilliseconds: 60_000)
    }

    @Test func `Every step occurs once and in order`() {
        var nextStepIndices = [Int](repeating: 0, count: season.matches.count)
        var lastDueMilliseconds: Int64 = 0
        for event in timeline.events {
            #expect(event.dueMilliseconds >= lastDueMilliseconds)
            lastDueMilliseconds = event.dueMilliseconds
            #expect(event.stepIndex == nextStepIndices[event.matchIndex])
            nextStepIndices[event.matchIndex] += 1
        }
        #expect(nextStepIndices == season.matches.map { $0.balls.count + 1 })
    }

    @Test func `Every match begins near the start, and the longest ends at the end`() {
        let firstStepMilliseconds = timeline.events.filter { $0.stepIndex == 0 }.map(\.dueMilliseconds)
        #expect(
            firstStepMilliseconds.count == 60 && firstStepMilliseconds.min() == 0
                && firstStepMilliseconds.allSatisfy { $0 <= 3_000 }
        )
        let lastBalls = timeline.events.filter { $0.stepIndex == season.matches[$0.matchIndex].balls.count - 1 }
        #expect(lastBalls.map(\.dueMilliseconds).max() == 60_000)
    }

    @Test func `The pace is that of the real match`() throws {
        let dueMilliseconds = Timeline([season.matches[0]], durationMilliseconds: 10_000_000).events
            .map(\.dueMilliseconds)
        let millisecondsPerBall = dueMilliseconds[1] - dueMilliseconds[0]
        #expect(abs(dueMilliseconds[6] - dueMilliseconds[5] - millisecondsPerBall * 3 / 2) <= 2)
        #expect(abs(dueMilliseconds[122] - dueMilliseconds[121] - millisecondsPerBall * 30) <= 30)
    }

    @Test func `A season without matches has no events`() {
        #expect(Timeline([], durationMilliseconds: 1).events.isEmpty)
    }
}
