/// A round's claim of its range in the store, and the losses of the claim. See
/// ``Audiences/claimLost(_:areMembersLost:now:)``.
struct RoundClaim: BitwiseCopyable {
    /// The number under which the store knows the claim. Each attempt to claim the range has a new random number.
    var number: UInt64
    /// How often in a row the claim was lost. The count begins again after a claim that was held for longer than
    /// `lossCountResetAfterMilliseconds`. It is at most 7, because the pause before a claim then grows no further.
    var consecutiveLossCount: UInt8 = 0
    /// When the round may claim the range again after it was last in the phase `lost` (monotonic milliseconds); `.max`:
    /// it never was. The value stays after the new claim, because it later shows how long that claim was held.
    var nextClaimAtMilliseconds: Int64 = .max
    /// When the core found that the store had lost the round with its members, or may lack its members
    /// (monotonic milliseconds); `.min`: the core has not found this.
    var membersLostSinceMilliseconds = Int64.min
    /// How many times the round has waited after the reply to a claim, because the store may lack members. A wait after
    /// the reply to a checkpoint does not count. At `waitsForMembersMax`, the round waits no more
    /// (``Audiences/mayHaveLostMembers(_:_:)``). After a wait of ``Audiences/membersWaitMillisecondsMax``, the count is
    /// set to `waitsForMembersMax`.
    var waitsForMembersCount: UInt8 = 0
}
