import LiveActivity

/// What the lane knows about the alert of an update or end, beside the alert in the body (`RecordSlot.bodyLayout`). Has
/// no meaning for a start: no other command carries a start's alert, and the lane does not remove it.
struct RecordAlert: BitwiseCopyable {
    /// The version of another command whose alert is in the body: an older command, or one that Redis held. Nil: the
    /// body has no alert, or the command's own.
    var sourceVersion: Version?
    /// What the lane did about the alert of an older command that Redis holds.
    var heldStatus = HeldAlertStatus.notReported
    /// Whether an alert was removed because it was too old: the command's own alert, or an older command's alert that
    /// the command carried or should have carried.
    var wasRemovedByAge = false
}

/// What a lane did about a held alert: the alert of an older command that Redis holds, and that this record's command
/// replaces.
enum HeldAlertStatus: UInt8 {
    /// Redis has reported no held alert.
    case notReported
    /// The held alert is now in this command's body, or is not needed because one of these is true:
    /// - The held command has no alert, has expired, or is not valid.
    /// - The held alert is too old, or probably rang before Redis lost data (R25).
    /// - This command has an alert of its own, or carries one.
    case movedOrNotNeeded
    /// With the held alert, this command's body would be too large for APNs.
    case doesNotFit
}
