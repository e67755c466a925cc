/// What concerns the lifetime of the record's activity (R34, R35). It has a meaning for commands to an activity.
struct RecordLifetime: BitwiseCopyable {
    /// Whether the command ends an activity because its lifetime is over. This end has no state, so the
    /// activity keeps its last state. Known from the receipt on.
    var isEnd = false
    /// Whether the command starts an activity again after the end of its lifetime. Known from the receipt on, also if
    /// the command is invalid.
    var isRestart = false
    /// Whether this command is a `duplicate` whose version was settled without being shown (`StoreReply.wasNotShown`).
    /// If it is the end of a lifetime, the life stays in the timetable, so that the end is made again. Known from the
    /// admission on.
    var wasNotShown = false
    /// Whether a reply about this record named audiences that the member left. If the record ends a lifetime, the
    /// activity is then not restarted, because the timetable keeps no states that came through an audience.
    var hasLeftAudiences = false
    /// Whether the timetable must store this command, because a restart of the activity needs it (R34). The body is
    /// freed only after the timetable has it. Known from the outcome on.
    var mustBeKeptInTimetable = false
}
