import LiveActivity

extension ActivityState {
    /// The audiences that the activity left, in the bytes of a reply. Nil if a worker has confirmed all these
    /// departures.
    var encodedDepartures: [UInt8]? {
        MemberAudiences.encodeDepartures(audiences.formerDigests, at: registeredAtMilliseconds ?? 0)
    }

    /// Forgets which state the activity shows, if it is or was in audiences: a push to an audience may have replaced
    /// that state.
    mutating func forgetShownState() {
        if !audiences.isEmpty { shownDigest = nil }
    }

    /// Leaves all audiences, because the token was retired or unregistered, or the end was accepted.
    mutating func leaveAllAudiences() {
        forgetShownState()
        audiences.leaveAll()
    }

    /// Leaves all audiences, because APNs accepted the activity's end. Makes the stored time of the registration a
    /// millisecond later, so that this registration is `stale` if it is read again, and does not bring the activity
    /// back into the audiences. Does nothing if the activity is in no audience.
    mutating func leaveAudiencesAtEnd() {
        guard !audiences.currentDigests.isEmpty else { return }
        let raisedRegisteredAtMilliseconds = min((registeredAtMilliseconds ?? 0) + 1, StoredTime.millisecondsMax)
        registeredAtMilliseconds = raisedRegisteredAtMilliseconds
        token?.registeredAtMilliseconds = raisedRegisteredAtMilliseconds
        leaveAllAudiences()
    }

    /// Changes the audiences that the activity is in, and returns true. Returns false, without a change, if the
    /// activity would have too many unconfirmed departures (``StoreLimits/unconfirmedDeparturesMax``).
    mutating func changeAudiences(to list: [UInt8]) -> Bool {
        let previousAudiences = audiences
        guard audiences.change(to: MemberAudiences.decodeDigests(list)) else { return false }
        if !previousAudiences.isEmpty || !audiences.isEmpty { shownDigest = nil }
        return true
    }

    mutating func confirmDepartures(at milliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let isConfirmed = !audiences.formerDigests.isEmpty && registeredAtMilliseconds == milliseconds
        if isConfirmed { audiences.formerDigests = [] }
        return (StoreReply(.settled), isConfirmed ? .renewed : .unchanged)
    }
}
