import Delivery
import LiveActivity

/// Reads parked members again, each on a page of its own: members that the previous owner of the partition had parked,
/// and members that were read too long ago.
extension Audiences {
    /// The pause of a round in the phase `restoring` if too few places are free for its parked members. After the
    /// pause, the round tries again to reserve them.
    private static var parkingPlacePauseMilliseconds: Int64 { 100 }

    /// In the phase `restoring`, requests the page of the next member that the partition's previous owner had parked,
    /// or lets the round wait for room. After the last such member, the round enters `running`. Does nothing in another
    /// phase, or while the round has a page.
    ///
    /// The reading begins only when places for all these members are reserved. Otherwise two rounds could each park a
    /// part of their members, and then wait forever for each other's places.
    mutating func readParkedMembersAgain(of round: RoundIndex, now: Moment) {
        guard rounds[round].phase == .restoring, rounds[round].pages.first == .null else { return }
        guard let position = rounds[round].checkpoints.restored.nextParkedPosition else {
            rounds[round].checkpoints.restored.parkedPositions.free()
            rounds[round].checkpoints.restored.parkedPositions = .none
            rounds[round].enter(.running)
            return
        }
        guard reserveParkingPlaces(for: round) else { return waitForParkingPlaces(round, now: now) }
        guard mayTakePage(for: round) else { return addToPageQueue(round) }
        addPageToRestoreParkedMembers(of: round, at: position)
    }

    /// Requests the next page of a round in the phase `restoring`. Called when there is room for a page, and the round
    /// was the first in the page queue.
    ///
    /// - Returns: false if the round cannot use a page now: it is not in this phase, has a page already, has reserved
    ///   no places for its parked members, or has parked them all.
    mutating func givePageToRestoreParkedMembers(of round: RoundIndex) -> Bool {
        guard rounds[round].phase == .restoring, rounds[round].pages.first == .null,
            rounds[round].checkpoints.restored.reservedMemberCount > 0,
            let position = rounds[round].checkpoints.restored.nextParkedPosition
        else { return false }
        addPageToRestoreParkedMembers(of: round, at: position)
        return true
    }

    private mutating func addPageToRestoreParkedMembers(of round: RoundIndex, at position: UInt64) {
        let page = addPage(round, startPosition: position)
        pages[page].needsOnlyParkedMembers = true
        rounds[round].pages.list.append(page, in: &pages)
    }

    /// Reserves places for all members that the round must park again, unless it has this reservation. Returns false if
    /// too few places are free now.
    private mutating func reserveParkingPlaces(for round: RoundIndex) -> Bool {
        guard rounds[round].checkpoints.restored.reservedMemberCount == 0 else { return true }
        let memberCount = rounds[round].checkpoints.restored.unreadPositionCount
        guard mayReserveParkingPlaces(memberCount, for: round) else { return false }
        rounds[round].checkpoints.restored.reservedMemberCount = memberCount
        reservedParkingPlaceCount += memberCount
        apps[Int(rounds[round].appIndex)].takenParkingPlaceCount += memberCount
        return true
    }

    private mutating func waitForParkingPlaces(_ round: RoundIndex, now: Moment) {
        scheduleAdvance(of: round, at: now.monotonicMilliseconds + Self.parkingPlacePauseMilliseconds)
    }

    /// Gives up the places that `reserveParkingPlaces` has reserved for the round: for its next `memberCount` parked
    /// members, or for all if `memberCount` is nil.
    mutating func releaseParkingPlaces(of round: RoundIndex, memberCount: Int? = nil) {
        let releasedCount = memberCount ?? rounds[round].checkpoints.restored.reservedMemberCount
        rounds[round].checkpoints.restored.reservedMemberCount -= releasedCount
        reservedParkingPlaceCount -= releasedCount
        apps[Int(rounds[round].appIndex)].takenParkingPlaceCount -= releasedCount
        precondition(
            rounds[round].checkpoints.restored.reservedMemberCount >= 0 && reservedParkingPlaceCount >= 0,
            "places for parked members were released that were not reserved"
        )
    }

    /// Parks the members at the page's `startPosition` again, because the partition's previous owner had parked them,
    /// and frees the page. A member that was parked there, and is not on the page now, has left the audience. If too
    /// few places are free, parks none, and tries again after a pause.
    mutating func restoreParkedMembers(_ page: PageIndex, of round: RoundIndex, now: Moment) {
        let hasParked = parkMembersAgain(at: pages[page].startPosition, on: page, of: round, now: now)
        rounds[round].pages.list = LinkedList()
        freePageAndOfferRoom(page)
        if hasParked { advance(round, now: now) } else { waitForParkingPlaces(round, now: now) }
    }

    /// Parks the members at this position again. Returns false if too few places are free: then no member is parked,
    /// and the position must be read again.
    ///
    /// Rarely, the position has more members than were parked there, because the hashes of their ids are equal. Then
    /// all members at the position are parked, so that none is missed.
    private mutating func parkMembersAgain(
        at position: UInt64,
        on page: PageIndex,
        of round: RoundIndex,
        now: Moment
    ) -> Bool {
        var memberCount = 0
        for memberIndex in 0..<Int(pages[page].memberCount) where pages[page].position(memberIndex) == position {
            memberCount += 1
        }
        var restored = rounds[round].checkpoints.restored
        while restored.nextParkedPosition == position { restored.readPositionCount += 1 }
        let parkedCount = restored.readPositionCount - rounds[round].checkpoints.restored.readPositionCount
        let additionalCount = memberCount - parkedCount
        guard additionalCount <= freeParkingPlaceCount else { return false }
        rounds[round].checkpoints.restored.readPositionCount = restored.readPositionCount
        releaseParkingPlaces(of: round, memberCount: parkedCount)
        for memberIndex in 0..<Int(pages[page].memberCount) where pages[page].position(memberIndex) == position {
            guard let pageMember = pages[page].member(memberIndex) else { continue }
            let coordinates = MemberCoordinates(page: .null, memberIndex: 0, position: position)
            park(pageMember, at: coordinates, of: round, pauseMilliseconds: 0, now: now)
        }
        return true
    }

    /// Requests the page of a parked member, to read the member again before its push. The member was read too long
    /// ago: by now it may have left the audience, or may have another token.
    ///
    /// - Returns: false if there is no room for a page now. The round then waits in the page queue, and the member is
    ///   read when the round's turn comes.
    mutating func requestPageOfParkedMember(_ member: ParkedMemberIndex) -> Bool {
        let round = parkedMembers[member].round
        // If there is no room for a page, discard the members that the round has read ahead, which frees their pages.
        // This seldom costs time: the round may go only one lap above its lowest parked member. So these members might
        // have to wait for the parked member anyway.
        if !hasRoomForPage(of: round) { discardUnsentMembers(of: round, offersRoomToWaitingRounds: false) }
        defer { offerPageRoom(Int(rounds[round].appIndex)) }
        guard hasRoomForPage(of: round) else {
            // Queue the round, because each page that is freed goes to the queued rounds at once. If another parked
            // member of the round already waits for a page, it stays the one that waits. Otherwise members of the app's
            // two pools could replace each other again and again.
            if rounds[round].members.parkedMemberAwaitingPage == .null {
                rounds[round].members.parkedMemberAwaitingPage = member
            }
            addToPageQueue(round)
            return false
        }
        addPage(ofParkedMember: member)
        return true
    }

    /// Called when there is room for a page, for the first round in the page queue. If the round is running and one of
    /// its parked members waits for a page, requests this page and returns true. Otherwise returns false.
    mutating func givePageToAwaitingParkedMember(of round: RoundIndex) -> Bool {
        let member = rounds[round].members.parkedMemberAwaitingPage
        guard rounds[round].phase == .running, member != .null else { return false }
        addPage(ofParkedMember: member)
        return true
    }

    /// Whether a parked member of the round may be waiting for its page. Such a round must send soon after the page has
    /// come. Otherwise the member must be read once more. Also true while a refused push of a member is being recorded,
    /// because `refusedOrReadAgainCount` counts both; this does no harm.
    func mayAwaitPageOfParkedMember(_ round: RoundIndex) -> Bool {
        rounds[round].members.refusedOrReadAgainCount > 0 || rounds[round].members.parkedMemberAwaitingPage != .null
    }

    private mutating func addPage(ofParkedMember member: ParkedMemberIndex) {
        let round = parkedMembers[member].round
        if rounds[round].members.parkedMemberAwaitingPage == member {
            rounds[round].members.parkedMemberAwaitingPage = .null
        }
        parkedMembers[member].isBeingHandled = true
        // Above 0, this count keeps the round from being freed, so the round still exists when the reply comes.
        rounds[round].members.refusedOrReadAgainCount += 1
        let page = addPage(round, startPosition: parkedMembers[member].position)
        pages[page].parkedMember = member
    }

    /// Called when the page of a parked member is read again. Takes the member's current token from the page, parks the
    /// member again, and frees the page. A member that is not on the page has left the audience. If the round is
    /// running, this member ends as `unregistered`.
    mutating func handlePageOfParkedMember(_ page: PageIndex, now: Moment) {
        let (round, member) = (pages[page].round, pages[page].parkedMember)
        var isStillMember = false
        for index in 0..<Int(pages[page].memberCount) where pages[page].position(index) == pages[page].startPosition {
            guard let pageMember = pages[page].member(index),
                parkedMembers[member].hasSameIdentifier(as: pageMember)
            else { continue }
            parkedMembers[member].replaceEntry(by: pageMember, readAtMilliseconds: now.monotonicMilliseconds)
            isStillMember = true
        }
        freePageAndOfferRoom(page)
        rounds[round].members.refusedOrReadAgainCount -= 1
        if isStillMember || rounds[round].phase != .running {
            parkAgain(member, pauseMilliseconds: 0, now: now)
        } else {
            finishParkedMember(member, .unregistered)
        }
        moveToFrontOfSendQueueIfRequired(round)
        advance(round, now: now)
    }
}
