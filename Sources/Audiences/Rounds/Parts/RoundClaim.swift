/// A round's claim of its range in the store, and the losses of the claim. See ``Audiences/claimLost(_:areMembersLost:now:)``.
struct RoundClaim: BitwiseCopyable {
    /// The number under which the store knows the claim. Each attempt to claim the range has a new random number.
    var number: UInt64
    /// How often the round was lost since a claim was kept for long. The count ends at 7, because the pause before a
    /// claim then grows no further.
    var lossCount: UInt8 = 0
    /// When the round is, or was, claimed again after its last loss, monotonic milliseconds; `.max`: it was never lost.
    var nextClaimAtMilliseconds: Int64 = .max
    /// When the core found that the store had lost the round with its members, or may lack its members
    /// (monotonic milliseconds); `.min`: the core has not found this.
    var membersLostSinceMilliseconds = Int64.min
    /// How many times the round has waited after the reply to a claim, because the store may lack members. A wait
    /// after the reply to a checkpoint is not counted. When the longest wait is over, this is set to its maximum. See
    /// ``Audiences/mayHaveLostMembers(_:_:)``.
    var memberWaitCount: UInt8 = 0
}
