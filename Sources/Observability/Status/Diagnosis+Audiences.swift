extension Diagnosis {
    /// Findings about rounds that do not finish.
    var audiences: [Finding] {
        labels.apps.enumerated()
            .compactMap { index, app in
                let oldest = window.now[.audienceOldestRound, index]
                guard oldest > Self.staleMilliseconds else { return nil }
                let turns = window.count(.audienceMembers, index) ?? 0
                return Finding(
                    severity: .attention,
                    alert: "CausewayRoundsSlow",
                    sight:
                        "An audience of \(app) has had members that wait for its newest state for \(Numeral.duration(microseconds: oldest * 1_000)).",
                    meaning: turns > 0
                        ? "\(Numeral.grouped(turns)) members had their turn in the last minute, and newer commands come before all have."
                        : "No member had its turn in the last minute: its rounds stand still.",
                    action: turns > 0
                        ? "If lanes are busy, add workers. Else send to the audience less often, or widen its policy's spacing."
                        : "See what else is found here: the rounds wait for it, and go on by themselves."
                )
            }
    }
}
