import LiveActivity

/// What phones show of a match: the content state of its Live Activity.
struct MatchState: Equatable {
    enum Phase: String {
        case upcoming, live, inningsBreak, finished
    }

    struct Batter: Equatable {
        var name: String
        var runs = 0
        /// Balls that the batter faced. Wides do not count.
        var balls = 0
    }

    struct Bowler: Equatable {
        var name: String
        var wickets = 0
        /// Runs that count against the bowler. Extra runs of a legal ball do not count.
        var runs = 0
    }

    /// What the side that bats second needs to win: `target` runs (points) in all. It still needs `runsNeeded` runs,
    /// from `ballsLeft` balls (throws of the bowler).
    struct Chase: Equatable {
        var target: Int
        var runsNeeded: Int
        var ballsLeft: Int
        /// The runs that the side needs in each over, in hundredths. Nil when no run is needed, or no ball is left.
        var requiredRateHundredths: Int?
    }

    var phase: Phase
    /// The number of the innings, 1 or 2.
    var innings: Int
    /// The abbreviations of the team that bats and of the team that bowls.
    var battingTeam: String
    var bowlingTeam: String
    var runs = 0
    var wickets = 0
    /// The length of the innings so far: `12.3` means twelve complete overs and three legal balls of the next one.
    var overs = "0"
    var runRateHundredths = 0
    var striker: Batter?
    var nonStriker: Batter?
    var bowler: Bowler?
    var thisOver = ""
    var lastBall = ""
    /// The first side's score from the second innings on; nil before.
    var firstInnings: String?
    var chase: Chase?
    var result: String?

    /// The batting side's score in one line, for example "CSK 169/9 (19.5)".
    var score: String { "\(battingTeam) \(runs)/\(wickets) (\(overs))" }
}

extension MatchState {
    /// Writes the properties of the content state as the app's type decodes them. A property that is left out is
    /// optional in that type.
    func write(to json: inout JSONWriter) {
        json.member("phase", phase.rawValue)
        json.member("innings", innings)
        json.member("batting", battingTeam)
        json.member("bowling", bowlingTeam)
        json.member("runs", runs)
        json.member("wickets", wickets)
        json.member("overs", overs)
        json.member("runRate", hundredths: runRateHundredths)
        if let striker { json.member("striker") { striker.write(to: &$0) } }
        if let nonStriker { json.member("nonStriker") { nonStriker.write(to: &$0) } }
        if let bowler {
            json.member("bowler") { json in
                json.member("name", bowler.name)
                json.member("wickets", bowler.wickets)
                json.member("runs", bowler.runs)
            }
        }
        json.member("thisOver", thisOver)
        json.member("lastBall", lastBall)
        if let firstInnings { json.member("firstInnings", firstInnings) }
        if let chase {
            json.member("target", chase.target)
            json.member("runsNeeded", chase.runsNeeded)
            json.member("ballsLeft", chase.ballsLeft)
            if let rate = chase.requiredRateHundredths { json.member("requiredRate", hundredths: rate) }
        }
        if let result { json.member("result", result) }
    }

    var json: [UInt8] { JSONWriter.object { write(to: &$0) } }
}

extension MatchState.Batter {
    fileprivate func write(to json: inout JSONWriter) {
        json.member("name", name)
        json.member("runs", runs)
        json.member("balls", balls)
    }
}
