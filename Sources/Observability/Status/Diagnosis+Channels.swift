import LiveActivity
import Numbers

extension Diagnosis {
    /// With more channels than this, a finding warns. Apple allows an app 10,000 channels in an environment.
    static let channelsBeforeWarningMax: Int64 = 8_000

    /// Returns findings about channels that cannot be created, now or soon.
    var channelFindings: [Finding] {
        labels.pools.enumerated()
            .flatMap { index, pool in
                channelLimitFindings(poolIndex: index, pool) + channelCreationFindings(poolIndex: index, pool)
            }
    }

    private func channelLimitFindings(poolIndex: Int, _ pool: LabelValues.Pool) -> [Finding] {
        let channelCount = max(
            window.currentTotals[.channels, poolIndex],
            window.currentTotals[.channelsListed, poolIndex]
        )
        guard channelCount > Self.channelsBeforeWarningMax else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "CausewayChannelsNearLimit",
                observation:
                    "\(pool.app) has \(Numeral.grouped(channelCount)) broadcast channels in \(pool.environment).",
                meaning:
                    """
                    At \(Numeral.grouped(Limits.channelsPerAppMax)) APNs refuses further channels. Audiences without \
                    one get pushes only by tokens.
                    """,
                action:
                    "Shorten channels.keepSeconds, give fewer audiences a channel, or run causeway channels reconcile."
            )
        ]
    }

    private func channelCreationFindings(poolIndex: Int, _ pool: LabelValues.Pool) -> [Finding] {
        guard let failedCreationCount = window.count(.channelRefusals, poolIndex), failedCreationCount > 0
        else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "",
                observation:
                    """
                    \(Numeral.counted(failedCreationCount, "channel", "channels")) of \(pool.app) could not be \
                    created in \(pool.environment) in the last minute.
                    """,
                meaning: "Their audiences get pushes only by tokens, and devices start activities without a channel.",
                action: "Read the error below. It says what to do, if an operator must act.",
                logKinds: [.channelRefused]
            )
        ]
    }
}
