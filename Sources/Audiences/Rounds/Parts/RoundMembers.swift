import Delivery

/// The members of a round (``RoundSlot``) on which work has begun and has not ended: their push or start is under way,
/// they are parked or being read again, or their refusal is being recorded.
struct RoundMembers: BitwiseCopyable {
    /// The number of pushes in flight, or of starts that are being produced.
    var inFlightCount: UInt32 = 0
    /// The number of refused members whose results are being recorded, plus the number of parked members that are being
    /// read again.
    var refusedOrReadAgainCount: UInt32 = 0
    /// The first member in the round's list of parked members; `.null`: none is parked.
    var firstParked = ParkedMemberIndex.null
    var parkedCount: UInt32 = 0
    /// The lowest position of a parked member; `.max`: none is parked. The round stops one lap (``RoundProgress``)
    /// above this position: there the same member has its next turn, and a member must not get two pushes at once.
    /// (R28)
    var lowestParkedPosition: UInt64 = .max
    /// The parked member for whose page the round waits in the page queue (``AppWork``), to read the member again;
    /// `.null`: none.
    var parkedMemberAwaitingPage = ParkedMemberIndex.null
    /// For each environment: no parked member of the environment is due before this time (monotonic milliseconds).
    /// Until then, the core does not search the list of parked members for one that is due. `.max`: no parked member of
    /// the environment waits for its next push.
    var earliestParkedDueMilliseconds: ByEnvironment<Int64> = .init(repeating: .max)
}
