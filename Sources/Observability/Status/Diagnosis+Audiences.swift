import Numbers

extension Diagnosis {
    /// Returns a finding for each app with an audience that does not catch up: for more than a minute, there was no
    /// moment at which all its members had the newest state.
    var audienceFindings: [Finding] {
        labels.apps.enumerated()
            .compactMap { index, app in
                let oldestRoundAgeMilliseconds = window.currentTotals[.audienceOldestRound, index]
                guard oldestRoundAgeMilliseconds > Self.unsettledAgeMillisecondsMax else { return nil }
                let memberCount = window.count(.audienceMembers, index) ?? 0
                return Finding(
                    severity: .attention,
                    alertName: "CausewayRoundsSlow",
                    observation:
                        """
                        For \(Numeral.duration(microseconds: oldestRoundAgeMilliseconds * 1_000)), an audience of \
                        \(app) has always had members that wait for its newest state.
                        """,
                    meaning: memberCount > 0
                        ? """
                        \(Numeral.counted(memberCount, "member had its", "members had their")) turn in the last \
                        minute, but newer commands arrive before all members had theirs.
                        """
                        : "No member had its turn in the last minute: the rounds do not advance.",
                    action: memberCount > 0
                        ? """
                        If lanes are busy, add workers. Otherwise send to the audience less often, or increase its \
                        policy's spacing.
                        """
                        : "Correct what the other findings report. The rounds then continue automatically."
                )
            }
    }
}
