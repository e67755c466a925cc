import LiveActivity

/// Counts the commands that have a result, for the page of a simulator without a demo. The worker is then a process
/// that somebody else has started.
///
/// Unlike ``ResultTally`` it keeps no data about single commands, because the topic may be of any size. So if a worker
/// is killed and the next worker writes a result again, the command counts twice.
struct LivePageResultTally {
    /// Commands that have a result of their own or are counted in another command's result. Commands that name a
    /// channel are not counted, because their results look like those of an audience's broadcasts, which must not count
    /// (``ResultSummary/namesChannel``).
    private(set) var commandCount = 0
    /// The time from the command's record to APNs' response; for an audience, to the response for the last
    /// member.
    private(set) var freshness = DurationHistogram()

    mutating func add(_ result: ResultSummary) {
        guard result.isComplete, !result.isOfRange, !result.namesChannel, !result.isOfMember else { return }
        // If a command was held, its second result names the registration that released it. This result must
        // not count the command again.
        commandCount += result.supersededCommandCount + (result.isFromCommandsTopic ? 1 : 0)
        guard result.isFromCommandsTopic, result.outcome == .accepted || result.fanoutOutcome == .delivered,
            result.recordTimestampMilliseconds > 0, result.responseAtMilliseconds > 0
        else { return }
        freshness.add(milliseconds: result.responseAtMilliseconds - result.recordTimestampMilliseconds)
    }
}
