import LiveActivity

/// Some superseded commands get no result of their own (`kafka.supersededResults`). The command that replaces such a
/// command, its *replacement*, counts it. For example, version 2 replaces version 1, and version 3 replaces version 2.
/// Then only version 3 gets a result, which reports the count 2.
///
/// The replaced command's offset may be settled at once, because its record is not needed any more. The replacement is
/// received and not settled, so the commit of its own partition cannot pass it. If this process dies, the next owner
/// reads the replacement again. If it also reads the replaced command again, the replacement replaces that one again.
/// The replacement ends in one of three ways:
/// - It is settled with an outcome, or deferred. Then the replaced command can no longer be sent.
/// - It is dropped with its partition. Then the next owner reads it.
/// - It is itself counted. Then its own replacement counts both.
///
/// A superseded command with an alert is counted only if the alert of its replacement, or of the replacement's rider,
/// replaces its alert. Otherwise the superseded command gets a result, even if the activity's current command has a
/// newer alert.
///
/// If the process dies or the partition is revoked, only the count is lost.
extension Delivery {
    /// Finishes a superseded command that does not become a rider. Either only `replacement` counts the command, or the
    /// command gets a result. Returns what became of the slot of `replaced`.
    mutating func countOrFinishSuperseded(_ replaced: RecordIndex, by replacement: RecordIndex) -> SlotAfterMerge {
        guard supersededCounting.isOn(isBacklogKnown: readAhead.isBacklogKnown),
            records[replaced].mayEndWithoutResult,
            !records[replaced].hasAlert || records[records.alertSource(of: replacement)].hasOwnAlert
        else {
            finish(replaced, .superseded)
            return .inUse
        }
        records[replacement].ending.supersededCount.add(commandWith: records[replaced].ending.supersededCount)
        countOrFinishRider(of: replaced, by: replacement)
        return finishCountedCommand(replaced)
    }

    /// Finishes, without a result, a superseded command that its replacement counts. Returns what became of its slot.
    /// The slot is freed at once, except if a trace of the command must still be exported.
    private mutating func finishCountedCommand(_ record: RecordIndex) -> SlotAfterMerge {
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
