/// How a batter's turn ended.
struct Dismissal: Equatable {
    /// The ways in which cricket ends a batter's turn, with the names in the season's files.
    enum Kind: String, CaseIterable {
        case bowled
        case caught
        case caughtAndBowled = "caught and bowled"
        case legBeforeWicket = "lbw"
        case stumped
        case runOut = "run out"
        case hitWicket = "hit wicket"
        case obstructingTheField = "obstructing the field"
        case retiredHurt = "retired hurt"
        case retiredOut = "retired out"
    }

    var kind: Kind
    var player: String

    /// Whether the dismissal counts as a wicket. A batter who retires hurt may return, so this does not count.
    var countsAsWicket: Bool { kind != .retiredHurt }

    var isCreditedToBowler: Bool {
        switch kind {
        case .bowled, .caught, .caughtAndBowled, .legBeforeWicket, .stumped, .hitWicket: true
        case .runOut, .obstructingTheField, .retiredHurt, .retiredOut: false
        }
    }
}

/// One ball of a cricket match: one throw of the bowler to the batter, as in the season's files.
struct Ball: Equatable {
    /// The umpire's decision. A wide is out of the batter's reach, and a no-ball is thrown against the rules. Wides and
    /// no-balls are repeated, so an over (six legal balls of one bowler) can have more than six balls.
    enum Legality { case legal, wide, noBall }

    /// Which side bats: 0 while the first side bats, 1 while the second side bats.
    var innings: Int
    /// The number of the over, counted from 0.
    var over: Int
    var battingTeam: String
    var batter: String
    var bowler: String
    var nonStriker: String
    var batterRuns: Int
    var extraRuns: Int
    var dismissal: Dismissal?
    var legality = Legality.legal

    var totalRuns: Int { batterRuns + extraRuns }
    var isBoundary: Bool { batterRuns == 4 || batterRuns == 6 }
}

/// One match with all its balls, in order.
struct Match {
    enum Margin: Equatable {
        case runs(Int)
        case wickets(Int)

        var text: String {
            switch self {
            case .runs(let count): count == 1 ? "1 run" : "\(count) runs"
            case .wickets(let count): count == 1 ? "1 wicket" : "\(count) wickets"
            }
        }
    }

    /// What the side that bats second needs to win.
    struct Chase: Equatable {
        /// The number of runs with which the side wins. Nil if rain changed the number, and the season's files do not
        /// contain the new one.
        var target: Int?
        /// How many legal balls (``Ball/Legality``) the side may face to reach `target`. Nil if the season's files do
        /// not contain the number.
        var balls: Int?
        var isTargetRevised: Bool
    }

    static let oversPerInnings = 20
    static let ballsPerOver = 6

    var identifier: String
    var date: String
    var city: String
    var venue: String
    /// The two teams. The one that bats first comes first.
    var teams: [String]
    var winner: String
    var margin: Margin
    var playerOfTheMatch: String
    var balls: [Ball]
    var chase: Chase

    /// The result as one line, as a newspaper prints it.
    var resultLine: String {
        "\(winner) won by \(margin.text)" + (chase.isTargetRevised ? " (rain rule)" : "")
    }

    /// Returns the usual abbreviation of a team's name: SRH for Sunrisers Hyderabad, else its initials. A word in
    /// capitals is kept whole.
    static func abbreviation(of team: String) -> String {
        if team == "Sunrisers Hyderabad" { return "SRH" }
        return team.split(separator: " ")
            .map { word in
                word.allSatisfy(\.isUppercase) ? String(word) : String(word.prefix(1))
            }
            .joined()
    }
}

extension Match.Chase {
    /// Derives the target, for which the season's files have no column.
    ///
    /// The target is one more than the runs (points) of the first side. If the result contradicts this, rain has
    /// changed the target. Then:
    /// - If the first side won, the margin shows the target: if the second side made 100 runs and lost by 20, the
    ///   target was 121. The second side had six balls for each over that it began.
    /// - If the second side won, the files show neither target nor balls (nil).
    init(firstInningsRuns: Int, second: ArraySlice<Ball>, margin: Match.Margin) {
        let secondInningsRuns = second.reduce(0) { $0 + $1.totalRuns }
        let ballsPerInnings = Match.oversPerInnings * Match.ballsPerOver
        switch margin {
        case .runs(let runs):
            let target = secondInningsRuns + runs + 1
            isTargetRevised = target != firstInningsRuns + 1
            self.target = target
            balls = isTargetRevised ? ((second.last?.over ?? 0) + 1) * Match.ballsPerOver : ballsPerInnings
        case .wickets:
            isTargetRevised = secondInningsRuns <= firstInningsRuns
            target = isTargetRevised ? nil : firstInningsRuns + 1
            balls = isTargetRevised ? nil : ballsPerInnings
        }
    }
}
