/// What a record says about the lifetime of its activity, and what the timetable must learn (R34, R35). Only a command
/// to a single activity uses all fields.
struct RecordLifetime: BitwiseCopyable {
    /// Whether the command ends an activity because its lifetime is over. This end has no state, so the activity keeps
    /// its last state. Set when the lane reads the record.
    var isEnd = false
    /// Whether the command starts an activity again after the end of its lifetime. Set when the lane reads the record,
    /// also if the command is invalid.
    var isRestart = false
    /// The activity's count in ``LifetimeReportCounts`` when Redis was last asked about this lifetime command.
    var reportCountAtCheck: UInt16 = 0
    /// Whether Redis replied `duplicate`, but the phone did not show this version (`StoreReply.isUnshownDuplicate`). If
    /// the command is the end of a lifetime, the life then stays in the timetable, so that the end is made again.
    var isUnshownDuplicate = false
    /// Whether a reply about this record named audiences that its activity left. The activity is then not restarted
    /// after its lifetime, because the timetable has no states that came through an audience.
    var hasLeftAudiences = false
    /// Whether Redis refused this update, which had an alert, because of a newer command that is not settled. The newer
    /// command may be an end. So if the update is superseded, a restart of the activity may have to show its state.
    var mayHaveComeAfterEnd = false
    /// Whether the timetable must keep this command for a restart of the activity (R34). Set when the command gets its
    /// outcome, or by `settleRereadStart`. The lane keeps the body until the timetable has the command.
    var mustKeepCommandInTimetable = false
}
