/// An event in an activity's life, which a record reports to the timetable of lifetimes. The record settles only when
/// the timetable knows the event (R34). Times are UNIX milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. Replaces the life in the timetable, unless a start at the same time or
    /// later began that life.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity was alive at this time. The timetable ignores this time if it knows when the life began, knows an
    /// earlier sign of life, or has a new start that is due.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// An update came after the activity's end. If the timetable still has the activity, it keeps this update for a
    /// restart, unless it has a newer one. Nothing else changes.
    case updatedAfterEnd
    /// The activity has ended, or its policy no longer limits its lifetime. The timetable removes the
    /// activity.
    case removed
    /// The command by which Causeway ends this life was accepted, or has failed or expired. Also reported if Causeway
    /// could not start the activity again. The timetable ignores this event unless it has the life that began at
    /// `beganAtMilliseconds`.
    ///
    /// A new start is then due at once, and the new life begins at `restartAtMilliseconds`. But if the timetable keeps
    /// no start, or if `restartAtMilliseconds` is 0, the timetable removes the activity.
    case ended(beganAtMilliseconds: Int64, restartAtMilliseconds: Int64)
    /// Redis did not admit the command by which Causeway ends this life, because it had admitted another end of the
    /// activity. The other end may still be under way, and then reports how the life ended. So the timetable keeps the
    /// life at first, and workers claim the due life again and again. After several of these claims the timetable takes
    /// the other end for lost, and removes the activity.
    case endedByAnother(beganAtMilliseconds: Int64)
}

/// A command that the timetable keeps so that its activity can be started again: the newest start, or the newest
/// update. The new start shows the state of this update.
@frozen
public struct CommandKeptForRestart<Bytes> {
    public var isStart: Bool
    public var version: Version
    /// The start or update as a record of the commands topic (``CommandRecord``).
    public var record: Bytes

    @inlinable
    public init(isStart: Bool, version: Version, record: Bytes) {
        self.isStart = isStart
        self.version = version
        self.record = record
    }
}

extension CommandKeptForRestart: Equatable where Bytes: Equatable {}
extension CommandKeptForRestart: Sendable where Bytes: Sendable {}
