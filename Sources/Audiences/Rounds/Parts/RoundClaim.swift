/// A round's claim of its range in the store, and the losses of the claim. See
/// ``Audiences/claimLost(_:areMembersLost:now:)``.
struct RoundClaim: BitwiseCopyable {
    /// The number under which the store knows the claim. Each attempt to claim the range has a new random number.
    var number: UInt64
    /// How often in a row the claim was lost. After a claim that was kept for longer than `keptClaimMillisecondsMin`,
    /// the count begins again. It is at most 7, because the pause before a claim then grows no further.
    var lossCount: UInt8 = 0
    /// When the round may claim the range again after it last lost its claim (monotonic milliseconds). The value is
    /// kept after the new claim, because it shows how long that claim was held when it is lost too. `.max`: the round
    /// was never in the phase `lost`.
    var nextClaimAtMilliseconds: Int64 = .max
    /// When the core found that the store had lost the round with its members, or may lack its members
    /// (monotonic milliseconds); `.min`: the core has not found this.
    var membersLostSinceMilliseconds = Int64.min
    /// How many times the round has waited after the reply to a claim, because the store may lack members. A wait after
    /// the reply to a checkpoint is not counted. After a wait of ``Audiences/membersWaitMillisecondsMax``, the count is
    /// set to `waitsForMembersMax`, so that the round waits no more (``Audiences/mayHaveLostMembers(_:_:)``).
    var waitsForMembersCount: UInt8 = 0
}
