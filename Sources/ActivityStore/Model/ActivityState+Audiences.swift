import LiveActivity

extension ActivityState {
    /// The part of a reply that names the audiences which may not know yet that the activity left them.
    var departures: [UInt8]? { MemberAudiences.departures(audiences.leftDigests, at: registeredAtMilliseconds ?? 0) }

    /// Forgets what the activity shows if it is or was in audiences, because an audience's push may have
    /// replaced that state.
    mutating func forgetShownStateOfMember() {
        if !audiences.isEmpty { shownDigest = nil }
    }

    /// Leaves all audiences, because the token was retired or unregistered, or the end was accepted.
    mutating func leaveAllAudiences() {
        forgetShownStateOfMember()
        audiences.leaveAll()
    }

    /// Leaves all audiences after the member's end was accepted. The registration's time is raised, so that a
    /// repeated delivery of the registration is stale and does not bring the member back.
    mutating func leaveAtEnd() {
        guard !audiences.currentDigests.isEmpty else { return }
        let raised = min((registeredAtMilliseconds ?? 0) + 1, StoredTime.millisecondsMax)
        registeredAtMilliseconds = raised
        token?.registeredAtMilliseconds = raised
        leaveAllAudiences()
    }

    /// Changes the audiences. Returns false, without a change, if too many audiences do not know yet that the
    /// activity left them.
    mutating func changeAudiences(to list: [UInt8]) -> Bool {
        let before = audiences
        guard audiences.change(to: MemberAudiences.digests(list)) else { return false }
        if !before.isEmpty || !audiences.isEmpty { shownDigest = nil }
        return true
    }

    mutating func confirmDepartures(at milliseconds: Int64) -> (StoreReply<[UInt8]>, Expiry) {
        let isConfirmed = !audiences.leftDigests.isEmpty && registeredAtMilliseconds == milliseconds
        if isConfirmed { audiences.leftDigests = [] }
        return (StoreReply(.settled), isConfirmed ? .renewed : .unchanged)
    }
}
