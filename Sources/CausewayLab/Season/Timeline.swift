/// When each frame of a season is due, with all matches at the same time and the whole season compressed.
struct Timeline {
    struct Event: Equatable {
        var dueMilliseconds: Int64
        /// Index into the season's matches.
        var match: Int
        /// Index into that match's frames. The one after the last ball is the end of the match.
        var frame: Int
    }

    /// Real durations. The feed has an order and no times, so these are the averages of a T20 match.
    static let secondsPerBall = 40
    static let secondsPerOverBreak = 60
    static let secondsPerInningsBreak = 1_200
    /// From the last ball to the result.
    static let secondsToResult = 40

    /// By time. Events of one match are in the order of its frames.
    private(set) var events: [Event]
    /// When the very last ball is bowled.
    let lastBallMilliseconds: Int64

    /// - Parameter durationMilliseconds: from the very first ball to the very last, in compressed time.
    init(_ matches: [Match], durationMilliseconds: Int64) {
        precondition(durationMilliseconds > 0, "a season takes time")
        let clocks = matches.map(Self.realSeconds)
        let longest = max(1, clocks.map { $0.last ?? 0 }.max() ?? 1)
        events = []
        for (index, clock) in clocks.enumerated() {
            // Matches start within a twentieth of the whole, so that not all innings breaks come at the same time.
            let slack = min(longest - (clock.last ?? 0), longest / 20)
            let start = matches.count > 1 ? slack * index / (matches.count - 1) : 0
            for (frame, second) in (clock + [(clock.last ?? 0) + Self.secondsToResult]).enumerated() {
                let due = Int64(start + second) * durationMilliseconds / Int64(longest)
                events.append(Event(dueMilliseconds: due, match: index, frame: frame))
            }
        }
        events.sort { ($0.dueMilliseconds, $0.match, $0.frame) < ($1.dueMilliseconds, $1.match, $1.frame) }
        lastBallMilliseconds = durationMilliseconds
    }

    /// When each ball of a match is bowled, in seconds after its first one.
    private static func realSeconds(of match: Match) -> [Int] {
        var second = 0
        var clock: [Int] = []
        for (index, ball) in match.balls.enumerated() {
            if index > 0 {
                let previous = match.balls[index - 1]
                if previous.innings != ball.innings {
                    second += secondsPerInningsBreak
                } else {
                    second += previous.over != ball.over ? secondsPerOverBreak : secondsPerBall
                }
            }
            clock.append(second)
        }
        return clock
    }
}
