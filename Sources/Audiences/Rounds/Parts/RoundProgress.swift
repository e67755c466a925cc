/// How far a round (``RoundSlot``) has come on its way through the range's members. (R28)
///
/// A lap is the round's way through its range, once from the first place to the last. A position counts places over all
/// laps: in a range of 100 places, position 205 is place 5 in the third lap. The window of a version has the
/// positions at which the version reaches members. A window that begins at position 205 ends at position 305, after
/// each member once:
///
/// ```
/// position  0         100        200        300        400
///           |  lap 1   |  lap 2   |  lap 3   |  lap 4   |
///                                  |< window >|
///                                  205        305
/// ```
struct RoundProgress: BitwiseCopyable {
    /// The number of positions in one lap.
    let positionsPerLap: UInt64
    /// Every member below this position has its outcome or is parked.
    var completedPosition: UInt64 = 0
    /// One above the position of the last member that had its turn. In its turn, the shell takes the member's push, or
    /// the core queues the member's start; some members get neither.
    var sendPosition: UInt64 = 0
    /// Where the round begins to read its next segment: at the segment's first position, or in its middle if the round
    /// has discarded pages there and reads their members again. Only the first page of a segment is requested from
    /// here: each further page begins where the page before it ends.
    var readPosition: UInt64 = 0
    /// When a version first took over at the position at which the newest version begins (monotonic milliseconds); nil:
    /// no version has taken over yet.
    ///
    /// If a further version takes over at this position, the round has sent nothing since this time. If that is long
    /// and the pools are unavailable, the further version closes the older ones
    /// (``Audiences/closeOlderVersionsIfPoolsUnavailable(of:now:)``).
    @CompactOptional var firstTakeoverAtMilliseconds: Int64?
    /// Since when members have waited for their turns (UNIX milliseconds), for a metric (``RoundGauges``):
    /// - A wait begins when a version joins the round while no member waits. The value is the time at which the store
    ///   admitted this version.
    /// - Versions that join during the wait leave the value as it is.
    /// - The wait ends when the round has reached all members. From then on the value has no meaning.
    var membersWaitingSinceWallMilliseconds: Int64 = 0

    /// The position that the round has reached: no member below it waits for its turn. Usually this is
    /// ``sendPosition``. It is ``completedPosition`` if a page ends with positions that have no member.
    var currentPosition: UInt64 { max(sendPosition, completedPosition) }

    /// Notes that all members below `position` have their outcomes or are parked.
    mutating func complete(upTo position: UInt64) {
        completedPosition = max(completedPosition, position)
    }

    /// Moves all positions to the completed position of a checkpoint, or to 0 if there is no checkpoint.
    mutating func moveAllPositions(to position: UInt64) {
        (completedPosition, sendPosition, readPosition) = (position, position, position)
    }
}
