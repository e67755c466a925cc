import LiveActivity

/// Counts the commands that have a result, for the page of a simulator without a demo. Somebody else has started the
/// worker.
///
/// Unlike ``ResultTally``, it keeps no data about single commands, because the topic may be of any size. So a result
/// that the next worker repeats after a crash counts twice.
struct LivePageResultTally {
    /// Commands that have their own result, or that another command's result counts. Commands to a channel are left
    /// out, because their results look like those of an audience's broadcasts (``ScannedResult/namesChannel``).
    private(set) var commandCount = 0
    /// The times from a command's record to APNs' response. For a command to an audience: to APNs' last response.
    private(set) var freshness = DurationHistogram()

    mutating func add(_ result: ScannedResult) {
        guard result.hasOutcomeAndSource, !result.isOfRange, !result.namesChannel, !result.isOfMember else { return }
        // The second result of a held command names the registration that released the command. This result must not
        // count the command again.
        commandCount += result.supersededCommandCount + (result.isFromCommandsTopic ? 1 : 0)
        guard result.isFromCommandsTopic,
            result.outcome == .accepted || result.fanoutOutcome == .reachedAllMembers,
            result.recordTimestampMilliseconds > 0, result.responseAtMilliseconds > 0
        else { return }
        freshness.add(milliseconds: result.responseAtMilliseconds - result.recordTimestampMilliseconds)
    }
}
