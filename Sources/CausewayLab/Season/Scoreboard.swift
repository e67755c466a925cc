/// Computes the state of a match ball by ball, from the balls so far, the target and, at the end, the result.
struct Scoreboard {
    private let match: Match
    private(set) var state: MatchState

    private var legalBallCountInInnings = 0
    private var over = 0
    private var legalBallCountInOver = 0
    private var overSymbols: [String] = []
    private var batters: [String: MatchState.Batter] = [:]
    private var bowlers: [String: MatchState.Bowler] = [:]

    /// Makes the state before the first ball.
    init(_ match: Match) {
        precondition(match.teams.count == 2, "the reader admits matches of two sides")
        self.match = match
        state = MatchState(
            phase: .upcoming,
            innings: 1,
            battingTeam: Match.abbreviation(of: match.teams[0]),
            bowlingTeam: Match.abbreviation(of: match.teams[1])
        )
    }

    /// Updates the state with the next ball of the match.
    mutating func apply(_ ball: Ball) {
        if ball.innings + 1 != state.innings { changeInnings() }
        if ball.over != over || state.phase != .live {
            over = ball.over
            legalBallCountInOver = 0
            overSymbols.removeAll(keepingCapacity: true)
        }
        state.phase = .live
        state.runs += ball.totalRuns
        let isWicket = ball.dismissal?.countsAsWicket ?? false
        if isWicket { state.wickets += 1 }
        if ball.legality == .legal {
            legalBallCountInInnings += 1
            legalBallCountInOver += 1
        }
        creditPlayers(ball)
        let symbol = ball.symbol
        overSymbols.append(symbol)
        state.lastBall = symbol
        state.thisOver = overSymbols.joined(separator: " ")
        state.overs = oversText
        if legalBallCountInInnings > 0 {
            state.runRateHundredths = Hundredths.ratio(state.runs * Match.ballsPerOver, legalBallCountInInnings)
        }
        updateChase()
    }

    /// Sets the phase and the result of the match, after its last ball.
    mutating func finish() {
        state.phase = .finished
        state.result = match.resultLine
    }

    /// Sets the phase between the innings, after the first side's last ball.
    mutating func startInningsBreak() {
        state.phase = .inningsBreak
    }

    /// The length of the innings so far: `12.3` means twelve complete overs (six legal balls each) and three legal
    /// balls. An over to which an umpire adds a seventh legal ball by mistake counts as complete.
    private var oversText: String {
        legalBallCountInOver >= Match.ballsPerOver ? "\(over + 1)" : "\(over).\(legalBallCountInOver)"
    }

    private mutating func changeInnings() {
        let first = state
        state = MatchState(
            phase: .inningsBreak,
            innings: 2,
            battingTeam: first.bowlingTeam,
            bowlingTeam: first.battingTeam
        )
        state.firstInnings = first.score
        legalBallCountInInnings = 0
        batters.removeAll(keepingCapacity: true)
        bowlers.removeAll(keepingCapacity: true)
        updateChase()
    }

    /// Adds a ball to the figures of its batter and its bowler.
    private mutating func creditPlayers(_ ball: Ball) {
        var batter = batters[ball.batter] ?? MatchState.Batter(name: ball.batter)
        batter.runs += ball.batterRuns
        if ball.legality != .wide { batter.balls += 1 }
        batters[ball.batter] = batter
        state.striker = batter
        state.nonStriker = batters[ball.nonStriker] ?? MatchState.Batter(name: ball.nonStriker)

        var bowler = bowlers[ball.bowler] ?? MatchState.Bowler(name: ball.bowler)
        bowler.runs += ball.legality == .legal ? ball.batterRuns : ball.totalRuns
        if ball.dismissal?.isCreditedToBowler ?? false { bowler.wickets += 1 }
        bowlers[ball.bowler] = bowler
        state.bowler = bowler
    }

    private mutating func updateChase() {
        guard state.innings == 2, let target = match.chase.target, let balls = match.chase.balls else { return }
        let runsNeeded = max(0, target - state.runs)
        let ballsLeft = max(0, balls - legalBallCountInInnings)
        let rate = runsNeeded > 0 && ballsLeft > 0 ? Hundredths.ratio(runsNeeded * Match.ballsPerOver, ballsLeft) : nil
        state.chase = MatchState.Chase(
            target: target,
            runsNeeded: runsNeeded,
            ballsLeft: ballsLeft,
            requiredRateHundredths: rate
        )
    }
}

extension Scoreboard {
    /// Returns the current runs and balls of a batter; nil if the batter has not batted.
    func battingScore(of batter: String) -> String? {
        batters[batter].map { "\($0.runs) (\($0.balls))" }
    }
}

extension Ball {
    /// The ball in cricket's usual notation: `.` for no run, a number for the batter's runs, `W` for a wicket, `wd` for
    /// a wide, `nb` for a no-ball (``Ball/Legality``), and `b` for runs without a hit.
    var symbol: String {
        let runs =
            switch legality {
            case .wide: extraRuns == 1 ? "wd" : "\(extraRuns)wd"
            case .noBall: batterRuns == 0 ? "nb" : "\(batterRuns)nb"
            case .legal where extraRuns > 0: "\(extraRuns)b"
            case .legal: batterRuns == 0 ? "." : "\(batterRuns)"
            }
        guard dismissal?.countsAsWicket ?? false else { return runs }
        return runs == "." ? "W" : "\(runs)+W"
    }
}
