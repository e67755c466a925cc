/// Counts, since the simulation began, the pushes that a correct sender does not send. Pushes to compact phones
/// (``CompactCrowd``) are not counted.
///
/// A correct sender keeps all counts at 0, except `doubtfulAlertRepeatCount`. But it must send pushes again, and these
/// may be counted, if ``Faults`` lose or delay single responses, or if a ``GoAway`` says wrongly that pushes were not
/// processed.
struct SenderFaultCounts {
    /// Updates that the phone ignored, because it showed newer content.
    var ignoredOldUpdateCount = 0
    /// Starts by push that repeated the start of an activity which was still active on the phone.
    var duplicateStartCount = 0
    /// Repeated alerts that are a fault of the sender, because it knew that the alert had rung: no connection ended or
    /// became half open soon after the earlier push (``LostResponseMoments``), so the sender got its response.
    var faultyAlertRepeatCount = 0
    /// Repeated alerts that are perhaps no fault of the sender: the response to the earlier push may have been lost, so
    /// the sender may not have known that the alert had rung.
    var doubtfulAlertRepeatCount = 0
}
