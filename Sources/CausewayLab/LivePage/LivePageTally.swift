import LiveActivity

/// Counts the commands that have a result, for a page beside somebody else's worker.
///
/// Unlike ``Tally`` it keeps nothing for each command: the topic may be as large as it likes. So a result that a killed worker's successor
/// writes again counts twice.
struct LivePageTally {
    /// Commands with a result of their own, and those that such a result counts.
    private(set) var commands = 0
    /// Time from the command's record to APNs' response. For an audience: to the response for the last member.
    private(set) var freshness = Histogram()

    mutating func add(_ result: ResultSummary) {
        guard result.isComplete, !result.isOfRange, !result.isOfBroadcast else { return }
        // The second result of a held command: the registration that released it is no command.
        commands += result.superseded + (result.isFromCommands ? 1 : 0)
        guard result.isFromCommands, result.outcome == .accepted || result.roundOutcome == .delivered,
            result.recordMilliseconds > 0, result.responseMilliseconds > 0
        else { return }
        freshness.add(milliseconds: result.responseMilliseconds - result.recordMilliseconds)
    }
}
