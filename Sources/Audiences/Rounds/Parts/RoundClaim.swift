/// The claim of a round (``RoundSlot``) on its range in the store, and the losses of the claim. See
/// ``Audiences/handleLostClaim(_:areMembersLost:now:)``. The limits that are named here are in
/// `Audiences+LostClaims.swift`.
struct RoundClaim: BitwiseCopyable {
    /// The number under which the store knows the claim: a random one for each attempt to claim the range.
    private(set) var number: UInt64
    /// How often in a row the claim was lost. If a claim was held for longer than `lossCountResetAfterMilliseconds`,
    /// its loss is counted as the first. The count stops at `pauseDoublingsMax` + 1, because the pause before the next
    /// claim is then the longest.
    var consecutiveLossCount: UInt8 = 0
    /// How many times the round has waited until the store has all members again; the table says which waits count. At
    /// `memberWaitsMax` the round waits no more, because perhaps the store has lost nothing: after each failed attempt
    /// to connect, the store counts as one that may lack members.
    ///
    /// | event | count |
    /// | --- | --- |
    /// | a wait begins, because the store may lack members (``Audiences/mustWaitForMembers(_:_:)``) | grows by 1 |
    /// | a wait begins, because the store replied to a checkpoint that it has lost the round | stays |
    /// | a wait has lasted ``Audiences/memberWaitMillisecondsMax`` | becomes `memberWaitsMax` |
    var memberWaitCount: UInt8 = 0
    /// Whether a wait for members, of the round or of one of its pages, has lasted
    /// ``Audiences/memberWaitMillisecondsMax``. The round's pages then wait no more.
    var hasMemberWaitTimedOut = false
    /// In the phase `awaitingClaim`: when the round may claim the range again (monotonic milliseconds). Two durations
    /// count from this time: the wait for lost members, at most ``Audiences/memberWaitMillisecondsMax`` (ten minutes),
    /// and for how long the next claim is held (`heldSinceMilliseconds`). The value has no meaning before this phase
    /// begins.
    var nextClaimAtMilliseconds: Int64 = 0
    /// Since when the current claim counts as held (monotonic milliseconds): the end of the pause before this claim.
    /// Nil for the round's first claim. After a wait for members, the store may have granted the claim later. Then
    /// `consecutiveLossCount` may begin at 1 again too early, which does no harm.
    @CompactOptional private(set) var heldSinceMilliseconds: Int64?
    /// Since when the round waits for lost members (monotonic milliseconds): the time at which the core found that the
    /// store has lost the round, or may lack its members. Nil: the core has not found this since the last claim.
    @CompactOptional var membersLostSinceMilliseconds: Int64?

    init(number: UInt64) { self.number = number }

    /// Replaces the claim by a new one, because the round claims its range again: it has lost the earlier claim, or has
    /// waited for members. The first claim comes from `init`. The new claim counts as held since the end of the pause
    /// before it, and no members count as lost.
    mutating func beginNewClaim(number: UInt64) {
        self.number = number
        heldSinceMilliseconds = nextClaimAtMilliseconds
        membersLostSinceMilliseconds = nil
    }
}
