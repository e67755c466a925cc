/// What a record tells the timetable of lifetimes about its activity. Times are UNIX milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. Replaces what was known, unless that is a start at the same time or later.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity was alive at this time. Counts only if no start is known and no earlier time.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity would show a newer state, but it has ended. Says nothing about its life: only the command that comes with the note is
    /// kept, if the timetable has the activity.
    case missed
    /// The activity has ended, or its lifetime is not limited any more.
    case over
    /// The activity has ended because its lifetime had ended, or it could not be started again. Counts only for the life that began at
    /// this time. If the activity's start is kept, the activity is due at once to be started again, with `restartMilliseconds` as the
    /// time of its life; 0: it is forgotten.
    case ended(beganMilliseconds: Int64, restartMilliseconds: Int64)
    /// The end of the life that began at this time was refused because another end of the activity was admitted, which may still be
    /// under way. The life is forgotten only if it has been claimed often.
    case endedByAnother(beganMilliseconds: Int64)
}

/// A command that the timetable keeps so that its activity can be started again: the start, or what is shown now. The newest of each
/// is kept.
@frozen
public struct KeptCommand<Bytes> {
    public var isStart: Bool
    public var version: Version
    /// The command's record.
    public var record: Bytes

    @inlinable
    public init(isStart: Bool, version: Version, record: Bytes) {
        self.isStart = isStart
        self.version = version
        self.record = record
    }
}

extension KeptCommand: Equatable where Bytes: Equatable {}
extension KeptCommand: Sendable where Bytes: Sendable {}
