/// Counts, since the simulation began, the pushes that a correct sender does not send. Pushes to compact phones
/// (``CompactCrowd``) are not counted.
///
/// A correct sender keeps all counts except `doubtfulAlertRepeatCount` at 0. Exception: it sends pushes again if
/// ``Faults`` lose or delay single responses, or if a ``GoAway`` says that processed pushes were not processed.
struct SenderFaultCounts {
    /// Updates that the phone ignored, because it showed newer content.
    var ignoredOldUpdateCount = 0
    /// Starts by push that repeated the start of an activity which was still active on the phone.
    var duplicateStartCount = 0
    /// Repeated alerts that are a fault of the sender: it knew that the alert had rung. It had received the response to
    /// the earlier push, because no connection ended or became half open soon after that push
    /// (``LostResponseMoments``).
    var faultyAlertRepeatCount = 0
    /// Repeated alerts that are perhaps no fault of the sender: it may not have known that the alert had rung, because
    /// the response to the earlier push may have been lost.
    var doubtfulAlertRepeatCount = 0
}
