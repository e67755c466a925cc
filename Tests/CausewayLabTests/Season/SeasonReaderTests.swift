import Testing

@testable import CausewayLab

@Suite("Reading a season")
struct SeasonReaderTests {
    private static let matchHeader =
        "match_id,date,city,venue,team1,team2,toss_winner,toss_decision,winner,result,player_of_match\n"
    private static let matchRow = "7,2018-04-07,Pune,Ground,Reds,Blues,Reds,bat,Reds,runs:3,A Bat\n"
    private static let ballHeader =
        "match_id,date,innings,over,ball,batting_team,batter,bowler,non_striker,"
        + "runs_batter,runs_extras,runs_total,wicket_kind,player_out\n"
    private static let firstBallRow = "7,2018-04-07,1,0,1,Reds,A Bat,B Bowl,C Bat,4,0,4,,\n"
    private static let secondBallRow = "7,2018-04-07,2,0,1,Blues,D Bat,E Bowl,F Bat,0,0,0,caught,D Bat\n"

    private func readSeason(
        match: String = SeasonReaderTests.matchRow,
        balls: String = SeasonReaderTests.firstBallRow + SeasonReaderTests.secondBallRow
    ) throws -> Season {
        try Season(
            matchesFile: Array((Self.matchHeader + match).utf8),
            ballsFile: Array((Self.ballHeader + balls).utf8)
        )
    }

    @Test func `The smallest season is read`() throws {
        let season = try readSeason()
        #expect(season.ballCount == 2)
        #expect(season.matches[0].resultLine == "Reds won by 3 runs (rain rule)")
    }

    private static let row = "7,2018-04-07,Pune,Ground"
    private static let sides = "Reds,Blues,Reds,bat"

    @Test(arguments: [
        ("", "deliveries: match 7 is not in the matches file"),
        ("\(row),\(sides),Greens,runs:3,A\n", "matches:2: winner: Greens did not play"),
        ("\(row),\(sides),Reds,tie,A\n", "matches:2: result: neither runs:N nor wickets:N"),
        ("\(row),\(sides),Reds,wickets:11,A\n", "matches:2: result: neither runs:N nor wickets:N"),
        ("\(row),\(sides),Reds,runs:0,A\n", "matches:2: result: neither runs:N nor wickets:N"),
        ("7,2018-04-07,Pune\n", "matches:2: 3 fields where the header has 11"),
        (
            "8,2018-04-07,Pune,Ground,\(sides),Reds,runs:3,A\n",
            "matches:2: match_id: a match without deliveries, or the second row of one"
        ),
        (
            "\(row),Reds,Greens,Reds,bat,Reds,runs:3,A\n",
            "matches:2: match_id: the batting sides are not the two teams, one an innings"
        ),
    ])
    func `Faults in the matches are named`(rows: String, expected: String) {
        let error = #expect(throws: SeasonError.self) { try readSeason(match: rows) }
        #expect(error?.description == expected)
    }

    @Test(arguments: [
        ("7,d,3,0,1,Reds,A,B,C,0,0,0,,\n", "deliveries:2: innings: \"3\" is no number from 1 to 2"),
        ("7,d,1,20,1,Reds,A,B,C,0,0,0,,\n", "deliveries:2: over: \"20\" is no number from 0 to 19"),
        ("7,d,1,0,1,Reds,A,B,C,-1,0,-1,,\n", "deliveries:2: runs_batter: \"-1\" is no number from 0 to 99"),
        ("7,d,1,0,1,Reds,A,B,C,1,1,3,,\n", "deliveries:2: runs_total: not the sum of runs_batter and runs_extras"),
        ("7,d,1,0,1,Reds,A,B,C,0,0,0,melted,A\n", "deliveries:2: wicket_kind: unknown: melted"),
        (
            "7,d,1,0,1,Reds,A,B,C,0,0,0,bowled,\n",
            "deliveries:2: player_out: a dismissal needs both a kind and a player"
        ),
        ("7,d,1,0,1,Reds,A,B,C,0,0,0,,\n", "matches:2: match_id: not two innings, one after the other"),
        (secondBallRow + firstBallRow, "matches:2: match_id: not two innings, one after the other"),
        ("", "matches:2: match_id: a match without deliveries, or the second row of one"),
    ])
    func `Faults in the deliveries are named`(rows: String, expected: String) {
        let error = #expect(throws: SeasonError.self) { try readSeason(balls: rows) }
        #expect(error?.description == expected)
    }

    @Test func `A missing column is named`() {
        let error = #expect(throws: SeasonError.self) {
            try Season(matchesFile: Array("match_id\n".utf8), ballsFile: Array("match_id\n".utf8))
        }
        #expect(error?.description == "deliveries:1: no column innings")
    }
}
