extension Ball {
    /// Finds out which balls of one innings are wides or no-balls, and sets their ``Ball/Legality``.
    ///
    /// The season's files have a ball's extra runs (those that are not the batter's), but not their kind. Three rules
    /// of cricket show the kind. A batter can hit a no-ball but not a wide. Batters who run an odd number of runs
    /// change ends. A complete over has exactly six legal balls.
    ///
    /// A weight says how likely it is that a ball with extra runs is illegal. In a complete over, the balls with the
    /// highest weights are marked until six legal balls are left. In the last over of an innings, which may be
    /// incomplete, the balls with a weight above 1 are marked.
    ///
    /// Known error: a no-ball without a run of the batter is marked as a wide. Then the count of balls that its batter
    /// faced is one too low.
    static func markIllegalBalls(in innings: inout ArraySlice<Ball>) {
        var start = innings.startIndex
        while start < innings.endIndex {
            let end = innings[start...].firstIndex { $0.over != innings[start].over } ?? innings.endIndex
            markIllegalBalls(in: &innings, over: start..<end, isFull: end < innings.endIndex)
            start = end
        }
    }

    private static func markIllegalBalls(in innings: inout ArraySlice<Ball>, over: Range<Int>, isFull: Bool) {
        let weightedBalls = over.map { index in
            (
                index: index,
                weight: illegalityWeight(innings[index], next: index + 1 < over.upperBound ? innings[index + 1] : nil)
            )
        }
        let illegalIndices: [Int]
        if isFull {
            let surplusBallCount = max(0, over.count - Match.ballsPerOver)
            illegalIndices = weightedBalls.filter { $0.weight > 0 }
                .sorted { ($0.weight, -$0.index) > ($1.weight, -$1.index) }
                .prefix(surplusBallCount).map(\.index)
        } else {
            illegalIndices = weightedBalls.filter { $0.weight > 1 }.map(\.index)
        }
        for index in illegalIndices {
            innings[index].legality = innings[index].batterRuns > 0 ? .noBall : .wide
        }
    }

    /// Returns how likely it is that the ball is a wide or a no-ball, from 0 (certainly not) to 3 (certainly).
    private static func illegalityWeight(_ ball: Ball, next: Ball?) -> Int {
        guard ball.extraRuns > 0 else { return 0 }
        if ball.batterRuns > 0 || ball.extraRuns == 5 { return 3 }
        if let dismissal = ball.dismissal { return dismissal.kind == .stumped ? 3 : 1 }
        // Two kinds of balls are probably legal. Usually nobody hit a ball with four extra runs. A ball without `next`
        // is the last one of its over, and only a legal ball completes an over.
        guard ball.extraRuns != 4, let next else { return 1 }
        let isRunCountOdd = ball.batter != next.batter
        let isExtraCountOdd = ball.extraRuns % 2 == 1
        return isRunCountOdd == isExtraCountOdd ? 1 : 2
    }
}
