import LiveActivity
import Numbers

/// Builds the table of audiences' broadcast channels: how many exist, what is pending, and the last error.
extension StatusBuilder {
    /// The pools for which at least one of these is true:
    /// - Audiences have channels, or should have them.
    /// - APNs lists any channel.
    /// - This worker has created a channel, or has had an error with channels.
    private var poolsWithChannels: [(pool: LabelValues.Pool, status: ChannelStatus.PoolStatus)] {
        zip(labels.pools, channelPoolStatuses)
            .filter { _, status in
                status.hasConfiguredChannels || status.audienceChannelCount > 0 || status.listedChannelCount > 0
                    || status.creationCount > 0
                    || status.lastFailure != nil
            }
            .map { ($0, $1) }
    }

    var channelsTable: StatusTable {
        StatusTable(
            key: "channels",
            title: "Broadcast channels",
            explanation:
                """
                This worker's last poll; it polls once a minute. Once a day, one worker compares APNs' list with these \
                channels. An app may have \(Numeral.grouped(Limits.channelsPerAppMax)) in an environment.
                """,
            columns: [
                .init(key: "app", title: "app"), .init(key: "environment", title: "environment"),
                .init(key: "channels", title: "kept"), .init(key: "limitShare", title: "of the limit"),
                .init(key: "listed", title: "listed by APNs, if this worker asked"),
                .init(key: "creationsOpen", title: "being created"),
                .init(key: "unpublished", title: "not published yet"),
                .init(key: "deletionsPlanned", title: "deletion planned"),
                .init(key: "nextDeletionSeconds", title: "next deletion, in"),
                .init(key: "lookedSecondsAgo", title: "last poll, ago"),
                .init(key: "reconciledSecondsAgo", title: "last reconciled, ago"),
                .init(key: "lastError", title: "last error"),
                .init(key: "lastErrorSecondsAgo", title: "last error, ago"),
            ],
            rows: poolsWithChannels.map { pool, status in
                let channelCount = max(status.audienceChannelCount, status.listedChannelCount)
                let share = StatusCell.share(millionths: channelCount * 1_000_000 / Int64(Limits.channelsPerAppMax))
                return [
                    .words(pool.app), .words(pool.environment), .count(status.audienceChannelCount),
                    channelCount > Diagnosis.channelsBeforeWarningMax ? share.styled(.attention) : share,
                    status.listedChannelCount > 0 ? .count(status.listedChannelCount) : .none,
                ] + registryCells(status.lastRegistryReading) + [
                    status.lastFailure.map { .words($0.reason).styled(.attention) } ?? .none,
                    .duration(
                        milliseconds: status.lastFailure.map { ageMilliseconds(since: $0.failedAtWallMilliseconds) }
                    ),
                ]
            },
            emptyText: "No audience has a channel."
        )
    }

    /// Returns the cells about the registry, all empty if this worker has not read it yet.
    private func registryCells(_ reading: ChannelStatus.RegistryReading?) -> [StatusCell] {
        guard let reading else { return [StatusCell](repeating: .none, count: 6) }
        return [
            .count(Int64(reading.unfinishedCreationCount)), .count(Int64(reading.unpublishedChannelCount)),
            .count(Int64(reading.plannedDeletionCount)),
            .duration(
                milliseconds: reading.nextDeletionAtWallMilliseconds.map { max(0, -elapsedMilliseconds(since: $0)) }
            ),
            .duration(milliseconds: ageMilliseconds(since: reading.readAtWallMilliseconds)),
            .duration(milliseconds: reading.reconciledAtWallMilliseconds.map(ageMilliseconds(since:))),
        ]
    }

    private func ageMilliseconds(since eventAtWallMilliseconds: Int64) -> Int64 {
        max(0, elapsedMilliseconds(since: eventAtWallMilliseconds))
    }

    /// Returns how long ago a time was; negative for a future time. Returns 0 if the subtraction overflows: some times
    /// come from Redis, where other programs may write any number.
    private func elapsedMilliseconds(since eventAtWallMilliseconds: Int64) -> Int64 {
        let (difference, overflows) = wallMilliseconds.subtractingReportingOverflow(eventAtWallMilliseconds)
        return overflows ? 0 : difference
    }
}
