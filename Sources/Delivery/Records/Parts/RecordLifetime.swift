/// What a record says about the lifetime of its activity, and what the timetable must learn (R34, R35). Only a command
/// to a single activity uses all fields.
struct RecordLifetime: BitwiseCopyable {
    /// Whether the command ends an activity because its lifetime is over. This end has no state, so the activity keeps
    /// its last state. Set when the lane reads the record.
    var isEnd = false
    /// Whether the command starts an activity again after the end of its lifetime. Set when the lane reads the record,
    /// also if the command is invalid.
    var isRestart = false
    /// Whether this command is a `duplicate` of a version that was settled, but that the phone did not show
    /// (`StoreReply.isUnshownDuplicate`). If the command is the end of a lifetime, the life then stays in the
    /// timetable, so that the end is made again. Set by the reply to the admission.
    var isUnshownDuplicate = false
    /// Whether a reply about this record named audiences that the member left. The activity is then not restarted after
    /// its lifetime, because the timetable keeps no states that came through an audience.
    var hasLeftAudiences = false
    /// Whether the timetable must keep this command, because a restart of the activity needs it (R34). The body stays
    /// until the timetable has it. Set when the command gets its outcome.
    var mustKeepCommandInTimetable = false
}
