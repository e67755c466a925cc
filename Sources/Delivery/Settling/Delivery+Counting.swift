import LiveActivity

/// Some superseded commands get no result of their own (`kafka.supersededResults`). The newer command that replaces
/// such a command counts it. For example, version 2 replaces version 1, and version 3 replaces version 2. Then only
/// version 3 gets a result, which reports the count 2.
///
/// The older command's offset may be settled at once, because its record is not needed any more. The newer command is
/// received and not settled, so the commit of its own partition cannot pass it. If this process dies, the next owner
/// reads the newer command again, and that command replaces the older one again. The newer command ends in one of three
/// ways:
/// - It is settled with an outcome, or deferred. Then the older version can no longer be sent.
/// - It is dropped with its partition. Then the next owner reads it.
/// - It is itself counted. Then a command with a still higher version counts both.
///
/// A superseded command with an alert is counted only if the newer command's alert, or the alert of the newer command's
/// rider, replaces its alert. Otherwise the superseded command gets a result, even if the activity's current command
/// has a newer alert.
///
/// If the process dies or the partition is revoked, only the count is lost.
extension Delivery {
    /// Finishes a superseded command that does not become a rider. The command gets a result, or the newer one counts
    /// it. Returns what became of the older command's slot.
    mutating func finishSupersededCommand(_ older: RecordIndex, by newer: RecordIndex) -> SlotAfterMerge {
        guard supersededCounting.isOn(isBacklogKnown: readAhead.isBacklogKnown),
            records[older].mayEndWithoutResult,
            !records[older].hasAlert || records[records.alertSource(of: newer)].hasOwnAlert
        else {
            finish(older, .superseded)
            return .inUse
        }
        records[newer].ending.supersededCount.add(commandWith: records[older].ending.supersededCount)
        finishRider(of: older, countableBy: newer)
        return finishSupersededWithoutResult(older)
    }

    /// Finishes a superseded command without a result. Returns what became of its slot. The slot is freed at once,
    /// except if a trace of the command must still be exported.
    private mutating func finishSupersededWithoutResult(_ record: RecordIndex) -> SlotAfterMerge {
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
