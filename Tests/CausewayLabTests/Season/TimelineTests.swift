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
        var next = [Int](repeating: 0, count: season.matches.count)
        var last: Int64 = 0
        for event in timeline.events {
            #expect(event.dueMilliseconds >= last)
            last = event.dueMilliseconds
            #expect(event.frameIndex == next[event.matchIndex])
            next[event.matchIndex] += 1
        }
        #expect(next == season.matches.map { $0.balls.count + 1 })
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
        let own = Timeline([season.matches[0]], durationMilliseconds: 10_000_000).events.map(\.dueMilliseconds)
        let ball = own[1] - own[0]
        #expect(abs(own[6] - own[5] - ball * 3 / 2) <= 2)
        #expect(abs(own[122] - own[121] - ball * 30) <= 30)
    }

    @Test func `No matches, no events`() {
        #expect(Timeline([], durationMilliseconds: 1).events.isEmpty)
    }
}
