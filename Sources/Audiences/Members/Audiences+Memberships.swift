public import Delivery
import LiveActivity

/// Members that join or leave audiences, from ``receive(membership:now:)`` until every audience has
/// acknowledged or permanently refused the change.
extension Audiences {
    /// Whether the shell may call ``receive(membership:now:)`` once more.
    public var canReceiveMembership: Bool {
        !memberships.isFull && returnedMembers.count < configuration.membershipsMax
    }

    /// Number of changes that are not finished.
    public var membershipsInProgress: Int { memberships.count }

    /// Takes a change of a member's audiences. ``nextReturnedMember()`` returns the member, exactly once.
    public mutating func receive(membership incoming: IncomingMembership, now: Moment) {
        let membership = memberships.allocate(MembershipSlot(incoming))
        let key = MemberKey(incoming.member, identifier: incoming.identifier)
        guard let previousMembership = membershipIndex.updateValue(membership, forKey: key) else {
            return notifyNextAudience(membership, now: now)
        }
        switch memberships[previousMembership].stage {
        case .queued, .notifying: memberships[previousMembership].successor = membership
        case .asking, .ready, .underWay, .backingOff:
            overrideByLaterChange(previousMembership)
            notifyNextAudience(membership, now: now)
        }
    }

    /// Returns the next member whose audiences have all acknowledged or permanently refused its change; nil if there is
    /// none. A member that joined may first wait for its push, at most a second.
    public mutating func nextReturnedMember() -> ChangingMember? { returnedMembers.popFirst() }

    private mutating func notifyNextAudience(_ membership: UInt32, now: Moment) {
        memberships[membership].stage = .notifying
        guard memberships[membership].notifiedCount == memberships[membership].audiences.count else {
            return storeQueue.append(AudienceTicket(.changeMember, index: membership))
        }
        memberships[membership].notifiedMilliseconds = now.monotonicMilliseconds
        let successor = memberships[membership].successor
        guard successor != .max else { return showNewestStates(membership, now: now) }
        endMembership(membership)
        notifyNextAudience(successor, now: now)
    }

    /// Called when an audience has acknowledged the member's entry, or has refused it permanently. Notifies
    /// the next audience.
    mutating func audienceNotified(_ membership: UInt32, now: Moment) {
        memberships[membership].notifiedCount += 1
        notifyNextAudience(membership, now: now)
    }

    mutating func returnMembership(_ membership: UInt32) {
        guard !memberships[membership].isReturned else { return }
        memberships[membership].isReturned = true
        returnedMembers.append(memberships[membership].member)
    }

    mutating func endMembership(_ membership: UInt32) {
        returnMembership(membership)
        let key = MemberKey(memberships[membership].member, identifier: memberships[membership].identifier)
        if membershipIndex[key] == membership { membershipIndex[key] = nil }
        releaseState(of: membership)
        memberships[membership].freeBytes()
        memberships.free(membership)
    }
}
