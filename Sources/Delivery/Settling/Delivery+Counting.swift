import LiveActivity

/// Some superseded commands get no result of their own (`kafka.supersededResults`). The command that replaces such a
/// command, its *replacement*, counts it. For example, version 2 replaces version 1, and version 3 replaces version 2.
/// Then only version 3 gets a result, which reports the count 2.
///
/// The offset of a counted command is usually settled at once, before its replacement is finished. This loses no state.
/// If this process dies, the next owner reads the replacement again, because the commit of its partition cannot pass a
/// record that is not settled. If the next owner also reads the counted command again, the replacement replaces it
/// again.
///
/// The replacement ends in one of three ways:
/// - It is settled with an outcome, or deferred. Then the counted command can no longer be sent.
/// - It is dropped with its partition. Then the next owner reads it.
/// - It is itself counted. Then its own replacement counts both.
///
/// A superseded command with an alert is counted only if its replacement, or the replacement's rider, has an alert of
/// its own. Otherwise the superseded command gets a result, even if the activity's current command has a newer alert.
///
/// If the process dies or the partition is revoked, only the count is lost.
extension Delivery {
    /// Finishes a superseded command that does not become a rider. Either only `replacement` counts the command, or the
    /// command gets a result. Returns whether the slot of `replaced` is still in use.
    mutating func finishSuperseded(_ replaced: RecordIndex, countedBy replacement: RecordIndex) -> SlotStatus {
        guard supersededResultMode.countsInsteadOfResults(isBacklogKnown: readAhead.isBacklogKnown),
            records[replaced].mayEndWithoutResult,
            !records[replaced].hasAlert || records[records.alertSource(of: replacement)].hasOwnAlert
        else {
            finish(replaced, .superseded)
            return .inUse
        }
        records[replacement].ending.supersededCount.add(commandWith: records[replaced].ending.supersededCount)
        finishRider(of: replaced, countedBy: replacement)
        return finishCountedCommand(replaced)
    }

    /// Finishes, without a result, a superseded command that its replacement counts. Returns whether the command's slot
    /// is still in use: only while a trace of the command must still be exported.
    private mutating func finishCountedCommand(_ record: RecordIndex) -> SlotStatus {
        precondition(records[record].ending.settlement == nil)
        records.enterFinished(record, outcome: .superseded)
        countOutcome(.superseded)
        countSupersededWithoutResult(of: record)
        guard records[record].texts.trace.count == 0 else {
            queueOutgoingRecord(.endWithoutResult, record)
            return .inUse
        }
        continueAfterAcknowledgements(record)
        return .freed
    }
}
