/// The time of each step of a season. All matches are played at the same time, in a much shorter time than in reality.
struct Timeline {
    struct Event: Equatable {
        var dueMilliseconds: Int64
        var matchIndex: Int
        /// Index into the match's steps. The step after the last ball is the end of the match.
        var stepIndex: Int
    }

    /// Durations of a real match in seconds. The season's files have no times, so these are typical of a T20 match.
    static let secondsPerBall = 40
    static let secondsPerOverBreak = 60
    static let secondsPerInningsBreak = 1_200
    /// The time from the last ball to the result.
    static let secondsToResult = 40

    /// The events, ordered by time. The events of one match are in the order of its steps.
    private(set) var events: [Event]

    /// - Parameter durationMilliseconds: how long the demo takes from the first ball of the season to the last.
    init(_ matches: [Match], durationMilliseconds: Int64) {
        precondition(durationMilliseconds > 0, "a season takes time")
        let ballsAtSecondsByMatch = matches.map(Self.ballsAtSeconds)
        let longestSeconds = max(1, ballsAtSecondsByMatch.map { $0.last ?? 0 }.max() ?? 1)
        events = []
        for (index, ballsAtSeconds) in ballsAtSecondsByMatch.enumerated() {
            // Let the matches start at different times, over at most a twentieth of the whole time. Otherwise all
            // innings breaks would come at the same time.
            let startOffsetSecondsMax = min(longestSeconds - (ballsAtSeconds.last ?? 0), longestSeconds / 20)
            let startSeconds = matches.count > 1 ? startOffsetSecondsMax * index / (matches.count - 1) : 0
            for (stepIndex, second) in (ballsAtSeconds + [(ballsAtSeconds.last ?? 0) + Self.secondsToResult])
                .enumerated()
            {
                let dueMilliseconds = Int64(startSeconds + second) * durationMilliseconds / Int64(longestSeconds)
                events.append(Event(dueMilliseconds: dueMilliseconds, matchIndex: index, stepIndex: stepIndex))
            }
        }
        events.sort {
            ($0.dueMilliseconds, $0.matchIndex, $0.stepIndex) < ($1.dueMilliseconds, $1.matchIndex, $1.stepIndex)
        }
    }

    /// Returns when each ball of a match is bowled, in seconds after its first ball.
    private static func ballsAtSeconds(of match: Match) -> [Int] {
        var second = 0
        var ballsAtSeconds: [Int] = []
        for (index, ball) in match.balls.enumerated() {
            if index > 0 {
                let previous = match.balls[index - 1]
                if previous.innings != ball.innings {
                    second += secondsPerInningsBreak
                } else {
                    second += previous.over != ball.over ? secondsPerOverBreak : secondsPerBall
                }
            }
            ballsAtSeconds.append(second)
        }
        return ballsAtSeconds
    }
}
