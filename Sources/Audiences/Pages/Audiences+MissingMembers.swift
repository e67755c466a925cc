import Delivery
import LiveActivity

/// Pages that a round (``RoundSlot``) reads while a server of a cluster may lack their members. (R26)
extension Audiences {
    /// Makes a page wait if a server of a cluster may lack members of it: sets aside the call that reads the page, so
    /// that the call is made again later. Without this wait, the round would pass the lost members without notice. The
    /// round's claim does not show the loss: it is on the server with the audience's hash, and the page is usually on
    /// another one.
    ///
    /// A page waits in two cases:
    /// - The shell says that members are missing.
    /// - The store may lack members, and the page's whole segment is missing. This wait ends when the marks are read
    ///   the next time (R24).
    ///
    /// No page waits if the round is being drained or must be claimed again, because such a round waits for its pages.
    /// After one page has waited ``memberWaitMillisecondsMax``, no page of the round waits any more.
    ///
    /// - Parameter isSegmentMissing: whether the store has no directory of the page's segment.
    /// - Returns: whether the page waits. Then the reply must not be used.
    mutating func beginWaitIfMembersMissing(of page: PageIndex, isSegmentMissing: Bool, now: Moment) -> Bool {
        guard configuration.hasSeveralStoreServers, mustRoundsWait || (isSegmentMissing && mayStoreLackMembers) else {
            return false
        }
        let round = pages[page].round
        guard rounds[round].phase == .running || rounds[round].phase == .restoring,
            !rounds[round].claim.hasMemberWaitTimedOut
        else { return false }
        let sinceMilliseconds = pages[page].membersMissingSinceMilliseconds ?? now.monotonicMilliseconds
        pages[page].membersMissingSinceMilliseconds = sinceMilliseconds
        // Do not wait until `mayStoreLackMembers` is false: each failed attempt to connect makes it true again, so one
        // unavailable server would keep the rounds on all servers waiting. A reading of the marks after the beginning
        // of this wait is enough.
        guard sinceMilliseconds >= membersLastCompleteAtMilliseconds else { return false }
        guard now.monotonicMilliseconds - sinceMilliseconds < Self.memberWaitMillisecondsMax else {
            rounds[round].claim.hasMemberWaitTimedOut = true
            return false
        }
        // Forget that no page was found at this lower bound, because after the wait the store may have the page again.
        // Otherwise the next reading of the directory would skip it.
        pages[page].unusablePageLowerBound = nil
        storeQueue.setAside(pages[page].phase == .requestingPage ? .readPage(page) : .readDirectory(page), now: now)
        return true
    }
}
