/// All matches of a season, in the order of the matches file.
struct Season {
    var matches: [Match]

    var ballCount: Int { matches.reduce(0) { $0 + $1.balls.count } }

    static let matchesMax = 1_000

    /// Reads the two files of a season.
    ///
    /// - Throws: `SeasonError` with the file and, if one line is at fault, the line. Faults are, for example, a missing
    ///   column, a field that is not a number, a ball of an unknown match, innings out of order, and a match without
    ///   balls or result.
    init(matchesFile: [UInt8], ballsFile: [UInt8]) throws(SeasonError) {
        var ballsByMatch = try Self.readBalls(from: ballsFile)
        matches = []
        let table = try CSVTable(matchesFile, file: "matches", columns: MatchColumn.self)
        guard table.rows.count <= Self.matchesMax else {
            throw SeasonError(file: "matches", line: 0, reason: "more than \(Self.matchesMax) matches")
        }
        for row in table.rows {
            guard let balls = ballsByMatch.removeValue(forKey: try table.text(.match_id, of: row)) else {
                throw table.makeFault(.match_id, of: row, "a match without deliveries, or the second row of one")
            }
            matches.append(try Self.readMatch(row, of: table, balls: balls))
        }
        if let unknownMatch = ballsByMatch.keys.min() {
            throw SeasonError(file: "deliveries", line: 0, reason: "match \(unknownMatch) is not in the matches file")
        }
    }

    private enum MatchColumn: String, CaseIterable {
        case match_id, date, city, venue, team1, team2, winner, result, player_of_match
    }

    private enum BallColumn: String, CaseIterable {
        case match_id, innings, over, batting_team, batter, bowler, non_striker
        case runs_batter, runs_extras, runs_total, wicket_kind, player_out
    }

    private static func readMatch(
        _ row: CommaSeparatedValues.Row,
        of table: CSVTable<MatchColumn>,
        balls: [Ball]
    ) throws(SeasonError) -> Match {
        let teams = [try table.text(.team1, of: row), try table.text(.team2, of: row)]
        let winner = try table.text(.winner, of: row)
        guard teams.contains(winner) else { throw table.makeFault(.winner, of: row, "\(winner) did not play") }
        guard let margin = Match.Margin(resultText: try table.text(.result, of: row)) else {
            throw table.makeFault(.result, of: row, "neither runs:N nor wickets:N")
        }
        var firstInnings = balls.prefix { $0.innings == 0 }
        var secondInnings = balls[firstInnings.endIndex...]
        guard let opener = firstInnings.first, let chaser = secondInnings.first,
            secondInnings.allSatisfy({ $0.innings == 1 })
        else {
            throw table.makeFault(.match_id, of: row, "not two innings, one after the other")
        }
        guard Set(teams) == [opener.battingTeam, chaser.battingTeam],
            firstInnings.allSatisfy({ $0.battingTeam == opener.battingTeam }),
            secondInnings.allSatisfy({ $0.battingTeam == chaser.battingTeam })
        else { throw table.makeFault(.match_id, of: row, "the batting sides are not the two teams, one an innings") }
        Ball.markIllegalBalls(in: &firstInnings)
        Ball.markIllegalBalls(in: &secondInnings)
        return Match(
            identifier: try table.text(.match_id, of: row),
            date: try table.text(.date, of: row),
            city: try table.text(.city, of: row),
            venue: try table.text(.venue, of: row),
            teams: [opener.battingTeam, chaser.battingTeam],
            winner: winner,
            margin: margin,
            playerOfTheMatch: try table.text(.player_of_match, of: row),
            balls: Array(firstInnings + secondInnings),
            chase: Match.Chase(
                firstInningsRuns: firstInnings.reduce(0) { $0 + $1.totalRuns },
                second: secondInnings,
                margin: margin
            )
        )
    }

    /// Returns the balls (``Ball``) of each match, by the match's id, in the file's order.
    private static func readBalls(from file: [UInt8]) throws(SeasonError) -> [String: [Ball]] {
        let table = try CSVTable(file, file: "deliveries", columns: BallColumn.self)
        var byMatch: [String: [Ball]] = [:]
        for row in table.rows {
            let ball = try Self.readBall(row, of: table)
            byMatch[try table.text(.match_id, of: row), default: []].append(ball)
        }
        return byMatch
    }

    private static func readBall(
        _ row: CommaSeparatedValues.Row,
        of table: CSVTable<BallColumn>
    ) throws(SeasonError) -> Ball {
        let kindText = try table.text(.wicket_kind, of: row)
        let playerOut = try table.text(.player_out, of: row)
        let kind = Dismissal.Kind(rawValue: kindText)
        guard (kind != nil) == !kindText.isEmpty else {
            throw table.makeFault(.wicket_kind, of: row, "unknown: \(kindText)")
        }
        guard kindText.isEmpty == playerOut.isEmpty else {
            throw table.makeFault(.player_out, of: row, "a dismissal needs both a kind and a player")
        }
        let ball = Ball(
            innings: try table.number(.innings, of: row, in: 1...2) - 1,
            over: try table.number(.over, of: row, in: 0...(Match.oversPerInnings - 1)),
            battingTeam: try table.text(.batting_team, of: row),
            batter: try table.text(.batter, of: row),
            bowler: try table.text(.bowler, of: row),
            nonStriker: try table.text(.non_striker, of: row),
            batterRuns: try table.number(.runs_batter, of: row, in: 0...99),
            extraRuns: try table.number(.runs_extras, of: row, in: 0...99),
            dismissal: kind.map { Dismissal(kind: $0, player: playerOut) }
        )
        guard ball.totalRuns == (try table.number(.runs_total, of: row, in: 0...198)) else {
            throw table.makeFault(.runs_total, of: row, "not the sum of runs_batter and runs_extras")
        }
        return ball
    }
}

extension Match.Margin {
    init?(resultText text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let count = Int(parts[1]), count > 0 else { return nil }
        switch parts[0] {
        case "runs": self = .runs(count)
        case "wickets" where count <= 10: self = .wickets(count)
        default: return nil
        }
    }
}

/// A file with a header line. The fields of a row are found by the names of the columns.
private struct CSVTable<Column: RawRepresentable & CaseIterable & Hashable> where Column.RawValue == String {
    let rows: ArraySlice<CommaSeparatedValues.Row>
    private let file: String
    private let columnIndices: [Column: Int]

    init(_ bytes: [UInt8], file: String, columns: Column.Type) throws(SeasonError) {
        let allRows = try CommaSeparatedValues.rows(of: bytes, file: file)
        guard let header = allRows.first else { throw SeasonError(file: file, line: 0, reason: "empty") }
        var columnIndices: [Column: Int] = [:]
        for column in Column.allCases {
            guard let index = header.fields.firstIndex(of: column.rawValue) else {
                throw SeasonError(file: file, line: 1, reason: "no column \(column.rawValue)")
            }
            columnIndices[column] = index
        }
        for row in allRows where row.fields.count != header.fields.count {
            let reason = "\(row.fields.count) fields where the header has \(header.fields.count)"
            throw SeasonError(file: file, line: row.lineNumber, reason: reason)
        }
        self.file = file
        self.columnIndices = columnIndices
        rows = allRows.dropFirst()
    }

    func text(_ column: Column, of row: CommaSeparatedValues.Row) throws(SeasonError) -> String {
        guard let index = columnIndices[column], index < row.fields.count else {
            throw makeFault(column, of: row, "missing")
        }
        return row.fields[index]
    }

    func number(
        _ column: Column,
        of row: CommaSeparatedValues.Row,
        in range: ClosedRange<Int>
    ) throws(SeasonError) -> Int {
        let text = try text(column, of: row)
        guard let number = Int(text), range.contains(number) else {
            throw makeFault(column, of: row, "\"\(text)\" is no number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func makeFault(_ column: Column, of row: CommaSeparatedValues.Row, _ reason: String) -> SeasonError {
        SeasonError(file: file, line: row.lineNumber, reason: "\(column.rawValue): \(reason)")
    }
}
