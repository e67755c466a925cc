/// An event in an activity's life, which a record reports to the timetable of lifetimes. The record settles only when
/// the timetable knows the event (R34). Times are UNIX milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. The new life replaces the life in the timetable. But a life that a start began at
    /// the same time or later stays.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity was alive at this time. The life counts from this time in two cases: the timetable has no life of
    /// the activity yet, or it knows no start of the life and counts the life from a later time.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// An update came after the activity's end. The timetable keeps the update for a restart, if it still has the
    /// activity and has no newer update. Nothing else changes.
    case updatedAfterEnd
    /// The activity has ended, or its policy no longer limits its lifetime. The timetable removes the activity.
    case endedOrUnlimited
    /// The command by which Causeway ends this life was accepted, or has failed or expired. Also reported if Causeway
    /// could not start the activity again. The timetable ignores the event if it has no life that began at
    /// `beganAtMilliseconds`.
    ///
    /// If `restartAtMilliseconds` is 0, or if the timetable keeps no start, the timetable removes the activity.
    /// Otherwise a new start is due at once, and the new life begins at `restartAtMilliseconds`.
    case ended(beganAtMilliseconds: Int64, restartAtMilliseconds: Int64)
    /// Redis did not admit the command by which Causeway ends this life, because Redis had admitted another end of the
    /// activity, such as a producer's:
    /// 1. The timetable keeps the life at first. The other end may still be under way, and then its record reports that
    ///    the activity has ended.
    /// 2. Workers continue to claim the life.
    /// 3. After several claims (`claimsDuringAnotherEndMax`) the other end seems to be lost, and the timetable removes
    ///    the activity.
    case otherEndAdmitted(beganAtMilliseconds: Int64)
}

/// A command that the timetable keeps so that its activity can be started again: the newest start, or the newest
/// update. The new start repeats the kept start, and shows the state of the kept update.
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
