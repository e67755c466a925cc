import LiveActivity

/// Builds the tables about commands to audiences: rounds, and the outcomes of members.
extension StatusBuilder {
    private static let noCommandText = "No command to an audience has arrived yet."

    /// The apps that have had a command to an audience.
    private var appsWithAudiences: [(index: Int, name: String)] {
        labels.apps.enumerated()
            .filter { index, _ in
                totals[.audienceCommands, index] > 0 || totals.sum(.audienceRanges, index) > 0
                    || totals[.audienceRounds, index] > 0
            }
            .map { ($0.offset, $0.element) }
    }

    var audiencesTable: StatusTable {
        StatusTable(
            key: "audiences",
            title: "Audiences",
            explanation:
                """
                Progress of the rounds. Times are from a command's record to the last phone of a range, in the last \
                minute.
                """,
            columns: [
                .init(key: "app", title: "app"), .init(key: "commands", title: "commands fanned out"),
                .init(key: "ranges", title: "ranges finished"), .init(key: "overtaken", title: "superseded ranges"),
                .init(key: "rounds", title: "rounds in progress"),
                .init(key: "oldestRoundSeconds", title: "oldest round"),
                .init(key: "oldestRangeSeconds", title: "oldest unfinished command"),
                .init(key: "parked", title: "members retried"),
            ] + Self.quantileColumns,
            rows: appsWithAudiences.map { index, name in
                let oldestRoundAgeMilliseconds = totals[.audienceOldestRound, index]
                let age = StatusCell.duration(
                    milliseconds: oldestRoundAgeMilliseconds > 0 ? oldestRoundAgeMilliseconds : nil
                )
                let oldestRangeAgeMilliseconds = totals[.audienceOldestRange, index]
                return [
                    .words(name), .count(totals[.audienceCommands, index]), .count(totals.sum(.audienceRanges, index)),
                    .count(totals[.audienceRanges, index, Int(FanoutOutcome.superseded.rawValue)]),
                    .count(totals[.audienceRounds, index]),
                    oldestRoundAgeMilliseconds > Diagnosis.unsettledAgeMillisecondsMax ? age.styled(.attention) : age,
                    .duration(milliseconds: oldestRangeAgeMilliseconds > 0 ? oldestRangeAgeMilliseconds : nil),
                    .count(totals[.audienceMembersParked, index]),
                ] + Self.quantileCells(window.histogram(.audienceRangeDuration, index))
            },
            emptyText: Self.noCommandText
        )
    }

    var audienceMembersTable: StatusTable {
        let rows = appsWithAudiences.flatMap { index, name in
            MemberOutcome.allCases
                .filter { totals[.audienceMembers, index, Int($0.rawValue)] > 0 }
                .map { outcome in
                    [.words(name), .words("\(outcome.name)")]
                        + rateAndTotalCells(.audienceMembers, index, Int(outcome.rawValue))
                }
        }
        return StatusTable(
            key: "audienceMembers",
            title: "Outcomes of members of audiences",
            columns: [.init(key: "app", title: "app"), .init(key: "outcome", title: "outcome")]
                + Self.rateAndTotalColumns,
            rows: rows,
            emptyText: "No member has had its turn yet."
        )
    }
}
