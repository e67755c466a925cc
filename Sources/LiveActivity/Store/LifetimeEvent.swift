/// An event in an activity's life, which a record reports to the timetable of lifetimes. The record settles only when
/// the timetable knows the event (R34). Times are UNIX milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. The new life replaces the life in the timetable. Exception: the life in the
    /// timetable stays if its own start has the same time or a later one.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// A record showed that the activity was alive at this time. If the start of its life is unknown, the life counts
    /// from the earliest such time. If the start is known, or if the activity waits for a restart, the life does not
    /// change.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// An update came after the activity's end, or perhaps did. If the timetable still has the activity, the timetable
    /// keeps this update for a restart, but never replaces a newer update. Nothing else changes.
    case updatedAfterEnd
    /// The activity has ended, or its policy no longer limits its lifetime. The timetable removes the activity.
    case endedOrUnlimited
    /// Causeway need not work on this life any more: its command that ends the life is finished (for example accepted,
    /// failed or expired), or it could not start the activity again.
    /// - If no life began at `beganAtMilliseconds`, the timetable ignores this event.
    /// - If `restartAtMilliseconds` is 0, or if the timetable keeps no start, the activity leaves the timetable.
    /// - Otherwise the new life begins at `restartAtMilliseconds`, and a new start is due at that time.
    case lifeFinished(beganAtMilliseconds: Int64, restartAtMilliseconds: Int64)
    /// Redis did not admit Causeway's end of this life, because Redis had admitted another end of the activity, such as
    /// a producer's.
    ///
    /// The timetable keeps the life at first: the other end may be under way, and its record then reports that the
    /// activity has ended. Until this report, workers claim the life again and again. After several claims
    /// (`claimsDuringAnotherEndMax`), the other end counts as lost, and the timetable removes the activity.
    case otherEndAdmitted(beganAtMilliseconds: Int64)
}

/// A command that the timetable keeps for a restart of its activity: the newest start, or the newest update. The new
/// start repeats the kept start, and shows the state of the kept update.
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
