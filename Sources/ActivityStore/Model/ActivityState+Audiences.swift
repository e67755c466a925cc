import LiveActivity

extension ActivityState {
    /// What the reply says of audiences that may not know that the activity has left them.
    var leaves: [UInt8]? { MemberAudiences.leaves(audiences.left, at: registeredAtMilliseconds ?? 0) }

    /// A push of an audience may have taken the place of what was shown.
    mutating func forgetShownOfMember() {
        if !audiences.isEmpty { digest = nil }
    }

    /// Its token or its life is over.
    mutating func leaveAllAudiences() {
        forgetShownOfMember()
        audiences.leaveAll()
    }

    /// The end of a member was accepted. Its registration, delivered again, is to be stale, and does not bring it back.
    mutating func leaveAtEnd() {
        guard !audiences.current.isEmpty else { return }
        let raised = min((registeredAtMilliseconds ?? 0) + 1, StoredTime.millisecondsMax)
        registeredAtMilliseconds = raised
        token?.registeredAtMilliseconds = raised
        leaveAllAudiences()
    }

    /// - Returns: false, and nothing is changed, if too many audiences have yet to know that the activity has left them.
    mutating func changeAudiences(to list: [UInt8]) -> Bool {
        let before = audiences
        guard audiences.change(to: MemberAudiences.digests(list)) else { return false }
        if !before.isEmpty || !audiences.isEmpty { digest = nil }
        return true
    }

    mutating func confirmLeaves(at milliseconds: Int64) -> (StoreReply<[UInt8]>, Lifetime) {
        let isConfirmed = !audiences.left.isEmpty && registeredAtMilliseconds == milliseconds
        if isConfirmed { audiences.left = [] }
        return (StoreReply(.settled), isConfirmed ? .renewed : .unchanged)
    }
}
