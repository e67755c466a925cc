import LiveActivity

/// Counts the commands that have a result, for a page beside a worker that this program has not started.
///
/// Unlike ``Tally`` it keeps no data about single commands, because the topic may be of any size. So a
/// command counts twice if a killed worker's successor writes its result again.
struct LivePageTally {
    /// Commands with their own result, and commands that such a result counts.
    private(set) var commands = 0
    /// The time from the command's record to APNs' response; for an audience, to the response for the last
    /// member.
    private(set) var freshness = Histogram()

    mutating func add(_ result: ResultSummary) {
        guard result.isComplete, !result.isOfRange, !result.isOfBroadcast else { return }
        // The second result of a held command names the registration that released the command, so it counts
        // no command.
        commands += result.superseded + (result.isFromCommands ? 1 : 0)
        guard result.isFromCommands, result.outcome == .accepted || result.roundOutcome == .delivered,
            result.recordMilliseconds > 0, result.responseMilliseconds > 0
        else { return }
        freshness.add(milliseconds: result.responseMilliseconds - result.recordMilliseconds)
    }
}
