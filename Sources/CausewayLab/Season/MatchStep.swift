/// One step of a match, which becomes one command: the state after a ball or at the end, and perhaps an alert.
struct MatchStep {
    struct Alert: Equatable {
        var title: String
        var body: String
    }

    var state: MatchState
    /// The alert of this step. The beginning and the end of the match have one. So has a ball that ends a batter's turn
    /// (a wicket), or brings four or six runs (a boundary).
    var alert: Alert?
}

extension Match {
    /// The state before the first ball, with which a start command begins an activity.
    var openingStep: MatchStep {
        MatchStep(
            state: Scoreboard(self).state,
            alert: MatchStep.Alert(title: "\(teams[0]) v \(teams[1])", body: "\(venue), \(city): the players walk out")
        )
    }

    /// Returns one step for each ball, and a last one for the end of the match.
    func steps() -> [MatchStep] {
        var scoreboard = Scoreboard(self)
        var steps: [MatchStep] = []
        steps.reserveCapacity(balls.count + 1)
        for (index, ball) in balls.enumerated() {
            scoreboard.apply(ball)
            let endsInnings = index + 1 < balls.count && balls[index + 1].innings != ball.innings
            if endsInnings { scoreboard.startInningsBreak() }
            steps.append(MatchStep(state: scoreboard.state, alert: makeAlert(for: ball, on: scoreboard)))
        }
        let first = scoreboard.state.firstInnings ?? ""
        let last = scoreboard.state.score
        scoreboard.finish()
        let end = MatchStep.Alert(
            title: resultLine,
            body: "\(first), \(last). Player of the match: \(playerOfTheMatch)"
        )
        steps.append(MatchStep(state: scoreboard.state, alert: end))
        return steps
    }

    /// Returns the alert of a ball; nil if the ball is neither a wicket nor a boundary.
    private func makeAlert(for ball: Ball, on scoreboard: Scoreboard) -> MatchStep.Alert? {
        let state = scoreboard.state
        if let dismissal = ball.dismissal, dismissal.countsAsWicket {
            let score = scoreboard.battingScore(of: dismissal.player) ?? "0 (0)"
            return MatchStep.Alert(
                title: "WICKET! \(state.battingTeam) \(state.runs)/\(state.wickets)",
                body: "\(dismissal.player) \(score), \(dismissal.kind.rawValue), bowler \(ball.bowler)"
            )
        }
        guard ball.isBoundary else { return nil }
        let score = scoreboard.battingScore(of: ball.batter) ?? ""
        return MatchStep.Alert(
            title: "\(ball.batterRuns == 6 ? "SIX" : "FOUR")! \(ball.batter) \(score)",
            body: state.score + (state.chase.map { Self.makeChaseLine($0) } ?? "")
        )
    }

    private static func makeChaseLine(_ chase: MatchState.Chase) -> String {
        chase.runsNeeded == 0 ? ", target reached" : ", \(chase.runsNeeded) needed from \(chase.ballsLeft)"
    }
}
