/// An event in an activity's life, which a record reports to the timetable of lifetimes. The record settles only when
/// the timetable knows the event (R34). Times are UNIX milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. Replaces the life in the timetable, unless a start at the same time or
    /// later began that life.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity was alive at this time. The timetable ignores the time if it knows the life's start or an earlier
    /// sign of life, or if a new start is due.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// An update came after the activity's end. If the timetable still has the activity, it keeps this update for a
    /// restart, unless it has a newer one. Nothing else changes.
    case updatedAfterEnd
    /// The activity has ended, or its policy no longer limits its lifetime. The timetable removes the
    /// activity.
    case removed
    /// APNs has accepted the command by which Causeway ends this life, or the command has failed or expired. Also
    /// reported if Causeway could not start the activity again. The timetable ignores this event if the life in the
    /// timetable did not begin at `beganAtMilliseconds`.
    ///
    /// If the timetable keeps the activity's start, a new start is due at once, and the new life begins at
    /// `restartAtMilliseconds`. If no start is kept or `restartAtMilliseconds` is 0, the timetable removes the
    /// activity.
    case ended(beganAtMilliseconds: Int64, restartAtMilliseconds: Int64)
    /// Redis did not admit the command by which Causeway ends this life, because it had admitted another end of the
    /// activity. The timetable keeps the life at first: the other end may still be under way, and then reports how
    /// the life ended. After many claims the other end seems to be lost, and the timetable removes the activity.
    case endedByAnother(beganAtMilliseconds: Int64)
}

/// A command that the timetable keeps so that its activity can be started again: the newest start, or the newest
/// update. The new start shows the state of this update.
@frozen
public struct KeptCommand<Bytes> {
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

extension KeptCommand: Equatable where Bytes: Equatable {}
extension KeptCommand: Sendable where Bytes: Sendable {}
