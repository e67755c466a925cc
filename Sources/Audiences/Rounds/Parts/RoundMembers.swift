import Delivery

/// The members that a round has begun with and not finished.
struct RoundMembers: BitwiseCopyable {
    /// The number of pushes in flight, or of starts that are being produced.
    var inFlightCount: UInt32 = 0
    /// The number of refused members whose results are being recorded, plus the number of parked members that
    /// are being read again.
    var awaitingStoreCount: UInt32 = 0
    /// The first in the list of parked members; `.null`: none is parked.
    var firstParked = ParkedMemberIndex.null
    var parkedCount: UInt32 = 0
    /// The lowest position of a parked member; `.max`: none is parked. One lap above it, the same member would have its
    /// next turn. So the round stops there, because a member must not get two pushes at once. (R28)
    var lowestParkedPosition: UInt64 = .max
    /// By environment: the earliest time at which a parked member is due (monotonic milliseconds); `.max`: none waits
    /// for a time. Until then the list of parked members is not searched.
    var parkedDueMilliseconds: InlineArray<2, Int64> = .init(repeating: .max)
}
