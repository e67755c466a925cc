public import Delivery
import LiveActivity

/// Members that join or leave audiences, from ``receiveMembershipChange(_:now:)`` until Redis has written an entry
/// about the change for every audience, or has permanently refused the entry.
extension Audiences {
    /// Whether the shell may call ``receiveMembershipChange(_:now:)`` now: there is room for one more change.
    public var canReceiveMembershipChange: Bool {
        !membershipChanges.isFull && membersToSettle.count < configuration.membershipChangesMax
    }

    /// The number of changes in memory, including those whose member still waits to be shown the newest state.
    public var membershipChangeCount: Int { membershipChanges.count }

    /// Takes a change of a member's audiences; call this only while ``canReceiveMembershipChange`` is true. When the
    /// registration that caused the change may be settled, ``takeMemberToSettle()`` returns the member, once for each
    /// change.
    public mutating func receiveMembershipChange(_ incoming: IncomingMembershipChange, now: Moment) {
        let change = membershipChanges.allocate(MembershipChangeSlot(incoming))
        apps[Int(incoming.member.appIndex)].membershipChangeSlotCount += 1
        let key = MemberKey(incoming.member, identifier: incoming.identifier)
        guard let previousChange = membershipChangesByKey.updateValue(change, forKey: key) else {
            return beginNotifying(change, now: now)
        }
        switch membershipChanges[previousChange].phase {
        case .queued, .notifying: membershipChanges[previousChange].nextChangeOfMember = change
        case .requestingStates, .awaitingPush, .underWay, .backingOff:
            overrideByLaterChange(previousChange)
            beginNotifying(change, now: now)
        }
    }

    /// Removes and returns the next member whose registration may be settled; nil if there is none. Redis has
    /// acknowledged or permanently refused the member's entries for all audiences. If the member gets a push with the
    /// newest state, APNs has also responded to the push, or `settlementDelayMillisecondsMax` has passed. The push may
    /// still be retried afterwards.
    public mutating func takeMemberToSettle() -> ChangingMember? { membersToSettle.popFirst() }

    private mutating func beginNotifying(_ change: MembershipChangeIndex, now: Moment) {
        membershipChanges[change].enter(.notifying)
        notifyNextAudience(change, now: now)
    }

    private mutating func notifyNextAudience(_ change: MembershipChangeIndex, now: Moment) {
        guard membershipChanges[change].notifiedAudienceCount == membershipChanges[change].audiences.count else {
            return storeQueue.append(.notifyAudience(change))
        }
        membershipChanges[change].allAudiencesNotifiedAtMilliseconds = now.monotonicMilliseconds
        let successor = membershipChanges[change].nextChangeOfMember
        guard successor != .null else { return beginShowingNewestState(change, now: now) }
        endMembershipChange(change)
        beginNotifying(successor, now: now)
    }

    /// Called when Redis has stored the member's entry in one audience, or has refused the entry permanently. Continues
    /// with the next audience. After the last one, begins the member's next change. If there is none, begins to show
    /// the member the newest state.
    mutating func handleNotifiedAudience(_ change: MembershipChangeIndex, now: Moment) {
        membershipChanges[change].notifiedAudienceCount += 1
        notifyNextAudience(change, now: now)
    }

    /// Lets `Delivery` settle the registration that caused this change: queues the member for
    /// ``takeMemberToSettle()``, once for each change. The change itself may go on.
    mutating func queueMemberToSettle(of change: MembershipChangeIndex) {
        guard !membershipChanges[change].wasQueuedToSettle else { return }
        membershipChanges[change].wasQueuedToSettle = true
        membersToSettle.append(membershipChanges[change].member)
    }

    mutating func endMembershipChange(_ change: MembershipChangeIndex) {
        queueMemberToSettle(of: change)
        let key = MemberKey(membershipChanges[change].member, identifier: membershipChanges[change].identifier)
        if membershipChangesByKey[key] == change { membershipChangesByKey[key] = nil }
        releaseState(of: change)
        apps[Int(membershipChanges[change].member.appIndex)].membershipChangeSlotCount -= 1
        membershipChanges[change].freeBytes()
        membershipChanges.free(change)
    }
}
