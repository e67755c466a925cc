import LiveActivity

/// What the lane knows about the alert of an update or end, beside the alert in the body (`RecordSlot.layout`). No
/// meaning for a start, whose alert is neither carried nor removed.
struct RecordAlert: BitwiseCopyable {
    /// The version of the command that brought the alert in the body, if this alert came from another record: from an
    /// older command, or from a command that Redis held. Nil: the body has no alert, or the alert of its own record.
    var sourceVersion: Version?
    /// What the lane did about the alert of an older command that Redis holds; `notReported` until Redis has replied to
    /// the admission.
    var heldStatus = HeldAlertStatus.notReported
    /// Whether an alert was removed because it was too old: the command's own alert, or one that it carried or should
    /// have carried.
    var isExpired = false
}

/// What a lane did about a held alert: the alert of an older command that Redis holds, and that this command replaces.
enum HeldAlertStatus: UInt8 {
    /// Redis has reported no held alert.
    case notReported
    /// The lane has read the held command. Its alert is now in this command's body, unless one of these is true:
    /// - The held command has no alert, or is not valid.
    /// - The alert of the held command is too old.
    /// - This command has an alert of its own, or carries one.
    case examined
    case doesNotFit
}
