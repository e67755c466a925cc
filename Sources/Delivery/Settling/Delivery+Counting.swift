import LiveActivity

/// Counts superseded commands that get no result of their own (`kafka.supersededResults`). The command that replaces
/// such a command, its *replacement*, counts it. For example, version 2 replaces version 1, and version 3 replaces
/// version 2: then only version 3 gets a result, which reports the count 2.
///
/// The offset of a counted command is usually settled at once, before its replacement is finished. No state is lost,
/// because the replacement ends in one of three ways:
/// - It is settled with an outcome, or deferred. Then the counted command can no longer be sent.
/// - It is dropped with its partition, or this process dies. Then the next owner reads it, because no commit passes an
///   unsettled record. If the next owner also reads the counted command, the replacement replaces it again.
/// - It is itself counted. Then its own replacement counts both.
///
/// Only the count is lost if the process dies or the partition is revoked.
///
/// A superseded command with an alert is counted only if its replacement, or the replacement's rider, has an alert of
/// its own. Otherwise it gets a result.
extension Delivery {
    /// Finishes a superseded command that does not become a rider, and its own rider, if it has one: either
    /// `replacement` counts the command, or the command gets a result. Returns whether the slot of `replaced` is still
    /// in use.
    mutating func finishSuperseded(_ replaced: RecordIndex, countedBy replacement: RecordIndex) -> SlotStatus {
        guard supersededResultMode.countsInsteadOfResults(isBacklogKnown: readAhead.isBacklogKnown),
            records[replaced].mayBeCountedByReplacement,
            !records[replaced].hasAlert || records[records.alertSource(of: replacement)].hasOwnAlert
        else {
            finish(replaced, .superseded)
            return .inUse
        }
        records[replacement].ending.supersededCount.addCommand(withCount: records[replaced].ending.supersededCount)
        finishRider(of: replaced, countedBy: replacement)
        return finishCountedCommand(replaced)
    }

    /// Finishes a counted command without a result. Returns whether its slot is still in use: only while a trace of the
    /// command must be exported.
    private mutating func finishCountedCommand(_ record: RecordIndex) -> SlotStatus {
        precondition(records[record].ending.settlement == nil)
        records.enterFinished(record, outcome: .superseded)
        countSupersededWithoutResult(of: record)
        guard records[record].texts.trace.count == 0 else {
            queueOutgoingRecord(.traceOnly, record)
            return .inUse
        }
        continueAfterAcknowledgements(record)
        return .freed
    }
}
