import Delivery
import LiveActivity

/// Rounds that another has claimed. Two workers may think for a while that they own the same partition, and a claim may reach the store
/// late. The one that owns it in truth must not be left without its rounds: it claims them again, after a pause that grows, so that the two
/// do not only take them from each other.
///
/// A round whose claim nobody has was in a store that came back empty: pages read since then had no members, so it goes on
/// from the last checkpoint that was recorded when the members are back, of all workers' registrations. Who was reached since then is sent the same state once more.
extension Audiences {
    private static var pauseMilliseconds: Int64 { 500 }
    private static var pauseDoublingsMax: UInt8 { 6 }

    /// The store named another claim than the round's, or none.
    mutating func lose(_ round: UInt32, membersAreLost: Bool, now: Moment) {
        guard rounds[round].phase == .running || rounds[round].phase == .restoring else {
            return abandon(round, now: now)
        }
        let doublings = min(rounds[round].losses, Self.pauseDoublingsMax)
        rounds[round].losses = doublings + 1
        let pause = jittered(Self.pauseMilliseconds << Int64(doublings))
        rounds[round].claimsAgainMilliseconds = now.monotonicMilliseconds + pause
        if membersAreLost { rounds[round].membersLostMilliseconds = now.monotonicMilliseconds }
        rounds[round].phase = .lost
        discardPages(of: round)
        moveOn(round, now: now)
    }

    /// Begins from where the store says that the round stands, once nothing of before is under way.
    mutating func claimAgain(_ round: UInt32, now: Moment) {
        let slot = rounds[round]
        guard slot.claimsAgainMilliseconds <= now.monotonicMilliseconds else {
            return wake(round, at: slot.claimsAgainMilliseconds)
        }
        guard slot.membersLostMilliseconds < membersHeldMilliseconds else {
            return wake(round, at: now.monotonicMilliseconds + Self.pauseMilliseconds)
        }
        guard isQuiet(round), !isFinishing(round) else { return }
        removeParked(of: round)
        var version = slot.oldest
        while version != .max {
            countBytes(-versions[version].otherBody.count, of: version)
            versions[version].receiveAgain(alertSeconds: policies[versions[version].policy].alertSeconds)
            version = versions[version].next
        }
        rounds[round].beginAgain(claim: randomness.next())
        storeQueue.append(AudienceTicket(.claim, index: round))
    }

    /// What is being recorded under the old claim is right, and settles.
    func isFinishing(_ round: UInt32) -> Bool {
        var version = rounds[round].oldest
        while version != .max {
            if versions[version].stage == .finishing { return true }
            version = versions[version].next
        }
        return false
    }
}
