/// An event in an activity's life, which a record reports to the timetable of lifetimes. Times are UNIX
/// milliseconds.
@frozen
public enum LifetimeEvent: Sendable, Equatable, BitwiseCopyable {
    /// A start began the activity. Replaces the known life, unless a start at the same time or later began
    /// that life.
    case began(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// The activity was alive at this time. Counts only if the timetable knows neither a start nor an earlier
    /// time.
    case alive(atMilliseconds: Int64, lifetimeMilliseconds: Int64)
    /// A newer state came after the activity's end. If the timetable has the activity, it keeps the state's
    /// command for a restart. Nothing else changes.
    case missed
    /// The activity has ended, or its lifetime is not limited any more.
    case over
    /// The activity was ended because its lifetime was over, or it could not be started again. Counts only
    /// for the life that began at `beganMilliseconds`. If the timetable keeps the activity's start, a new
    /// start is due at once, and the new life begins at `restartMilliseconds`. If no start is kept or
    /// `restartMilliseconds` is 0, the timetable removes the activity.
    case ended(beganMilliseconds: Int64, restartMilliseconds: Int64)
    /// Causeway's end of this life was refused, because another end of the activity was admitted. That end
    /// may still be under way and will report how the life ended. Only after many claims, the timetable
    /// removes the activity, because the other end seems to be lost.
    case endedByAnother(beganMilliseconds: Int64)
}

/// A command that the timetable keeps so that its activity can be started again: the newest start, or the
/// newest update that is shown.
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
