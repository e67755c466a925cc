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

    @Test func `Every frame occurs once and in order`() {
        var nextFrameIndices = [Int](repeating: 0, count: season.matches.count)
        var lastDueMilliseconds: Int64 = 0
        for event in timeline.events {
            #expect(event.dueMilliseconds >= lastDueMilliseconds)
            lastDueMilliseconds = event.dueMilliseconds
            #expect(event.frameIndex == nextFrameIndices[event.matchIndex])
            nextFrameIndices[event.matchIndex] += 1
        }
        #expect(nextFrameIndices == season.matches.map { $0.balls.count + 1 })
    }

    @Test func `Every match begins near the start, and the longest ends at the end`() {
        let firstFrameMilliseconds = timeline.events.filter { $0.frameIndex == 0 }.map(\.dueMilliseconds)
        #expect(
            firstFrameMilliseconds.count == 60 && firstFrameMilliseconds.min() == 0
                && firstFrameMilliseconds.allSatisfy { $0 <= 3_000 }
        )
        let lastBalls = timeline.events.filter { $0.frameIndex == season.matches[$0.matchIndex].balls.count - 1 }
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
