import Delivery
import LiveActivity

/// The newest states of audiences, which the core requests for the members that join them (`Audiences+Joiners`).
/// Joiners that wait for the state of the same audience share one request and one copy of the state.
///
/// A joiner is named by its membership change (``MembershipChangeSlot``).
extension Audiences {
    /// Requests the newest states of all audiences that the joiner has joined, one after the other. Forgets the state
    /// that was chosen before.
    mutating func requestNewestStates(_ change: MembershipChangeIndex) {
        releaseState(of: change)
        membershipChanges[change].enter(.requestingStates)
        membershipChanges[change].answeredStateRequestCount = 0
        requestStateOfNextAudience(change)
    }

    /// Makes the joiner wait for the newest state of its next joined audience. If a call for this state is already
    /// under way, another call follows its reply, because the first call may have read the state before the joiner
    /// joined.
    private mutating func requestStateOfNextAudience(_ change: MembershipChangeIndex) {
        let slot = membershipChanges[change]
        let key = AudienceKey(
            appIndex: slot.member.appIndex,
            digest: slot.joinedAudience(slot.answeredStateRequestCount)
        )
        guard let request = newestStateRequestsByKey[key] else {
            let request = newestStateRequests.allocate(NewestStateRequest(key))
            newestStateRequestsByKey[key] = request
            newestStateRequests[request].changes.prepend(change, in: &membershipChanges)
            return storeQueue.append(.readNewestState(request))
        }
        newestStateRequests[request].changesForNextRequest.prepend(change, in: &membershipChanges)
    }

    /// Gives an audience's newest state to the joiners that wait for it. Each joiner then requests the state of the
    /// next audience that it has joined. After the last audience, the joiner waits in its pool's queue. If there is no
    /// room for the state, the joiners request their states again after a pause.
    ///
    /// - Parameter reply: nil if the store refused the request.
    mutating func handleNewestStateReply(_ request: NewestStateRequestIndex, _ reply: Reply?, now: Moment) {
        let slot = newestStateRequests[request]
        let hasRoom = newestStateBytes < configuration.newestStateBytesMax
        let state = hasRoom ? addNewestState(slot.key.digest, reply) : nil
        // Queue another call for the changes that came after this request was queued: for them, the reply may be too
        // old. If there are no such changes, free the slot of the request. Do this before the loop below, because the
        // loop may request the state of the same audience again.
        newestStateRequests[request].changes = slot.changesForNextRequest
        newestStateRequests[request].changesForNextRequest = LinkedList()
        if slot.changesForNextRequest.isEmpty {
            newestStateRequestsByKey[slot.key] = nil
            newestStateRequests.free(request)
        } else {
            storeQueue.append(.readNewestState(request))
        }
        if let state { newestStates[state].referenceCount += 1 }
        var changes = slot.changes
        while let change = changes.popFirst(in: &membershipChanges) {
            guard hasRoom || reply?.verdict != .send else {
                backOffForLackOfBytes(change, now: now)
                continue
            }
            membershipChanges[change].answeredStateRequestCount += 1
            if let state, let version = reply?.newestVersion {
                chooseStateIfNewer(state, version, to: change)
            }
            if membershipChanges[change].answeredStateRequestCount < membershipChanges[change].joinedAudienceCount {
                requestStateOfNextAudience(change)
            } else {
                queueJoiner(change, now: now)
            }
        }
        if let state { releaseReference(of: state) }
    }

    /// Keeps the state that a reply has brought, for all joiners that wait for it, and returns its index. Nil if the
    /// reply has no usable state.
    private mutating func addNewestState(_ audience: AudienceDigest, _ reply: Reply?) -> NewestStateIndex? {
        guard let reply, reply.verdict == .send, let version = reply.newestVersion, let stored = reply.bytes,
            let body = JoinerBody.body(of: stored, timestamp: reply.timestamp)
        else { return nil }
        newestStateBytes += body.count
        return newestStates.allocate(NewestStateSlot(audience, reply, version, body))
    }

    /// Chooses this state for the joiner, except in two cases:
    /// - The activity already shows this version or a newer one.
    /// - Another state, of another joined audience, was chosen before and is at least as new.
    private mutating func chooseStateIfNewer(
        _ state: NewestStateIndex,
        _ version: Version,
        to change: MembershipChangeIndex
    ) {
        let slot = membershipChanges[change]
        // The registration says which version the activity shows, with its sequence. So compare whole versions.
        if let shownVersion = slot.shownVersion, version <= shownVersion { return }
        // The two states belong to different audiences, and a sequence orders only the states of one audience. So
        // compare `aps.timestamp`. If both timestamps are equal, the state that was chosen first stays.
        if slot.newestState != .null, newestStates[slot.newestState].timestamp >= newestStates[state].timestamp {
            return
        }
        releaseState(of: change)
        membershipChanges[change].newestState = state
        membershipChanges[change].stateExpirationSeconds = newestStates[state].expirationSeconds
        newestStates[state].referenceCount += 1
    }

    /// Notes that the joiner no longer uses its chosen state. Frees the state if no other joiner uses it.
    mutating func releaseState(of change: MembershipChangeIndex) {
        let state = membershipChanges[change].newestState
        guard state != .null else { return }
        membershipChanges[change].newestState = .null
        releaseReference(of: state)
    }

    private mutating func releaseReference(of state: NewestStateIndex) {
        newestStates[state].referenceCount -= 1
        guard newestStates[state].referenceCount == 0 else { return }
        newestStateBytes -= newestStates[state].body.count
        newestStates[state].body.free()
        newestStates.free(state)
    }
}
