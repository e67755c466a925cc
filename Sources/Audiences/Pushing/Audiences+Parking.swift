import Delivery
import LiveActivity
import Numbers

/// Parked members: members that get a push later, outside their turn in a round (``RoundSlot``).
///
/// A member is parked for one of three reasons:
/// - Its pool is unavailable when its turn comes.
/// - The partition's previous owner had parked the member.
/// - Its push failed for a temporary reason, and the member cannot wait for its next turn: either no version reaches it
///   then, or it must get a carried alert earlier (``needsCarriedAlert(_:wasThrottled:of:now:)``).
extension Audiences {
    /// Parks a member. Its next attempt is due after the pause. The caller has made sure that there is a free place.
    ///
    /// - Parameter coordinates: the page is `.null` if the partition's previous owner had parked the member.
    mutating func park(
        _ pageMember: PageMember,
        at coordinates: MemberCoordinates,
        of round: RoundIndex,
        failedAttemptCount: UInt8 = 0,
        wasThrottled: Bool = false,
        pauseMilliseconds: Int64,
        now: Moment
    ) {
        let first = rounds[round].members.firstParked
        let readAtMilliseconds =
            coordinates.page == .null ? now.monotonicMilliseconds : pages[coordinates.page].readAtMilliseconds
        let member = parkedMembers.allocate(
            ParkedMember(
                pageMember,
                round: round,
                nextParkedMember: first,
                coordinates: coordinates,
                failedAttemptCount: failedAttemptCount,
                wasThrottled: wasThrottled,
                readAtMilliseconds: readAtMilliseconds,
                dueMilliseconds: now.monotonicMilliseconds + pauseMilliseconds
            )
        )
        apps[Int(rounds[round].appIndex)].takenParkingPlaceCount += 1
        if first != .null { parkedMembers[first].previousParkedMember = member }
        rounds[round].members.firstParked = member
        rounds[round].members.parkedCount += 1
        rounds[round].members.lowestParkedPosition = min(
            rounds[round].members.lowestParkedPosition,
            coordinates.position
        )
        rounds[round].checkpoints.revision += 1
        noteParkedMemberDueTime(member)
    }

    private mutating func noteParkedMemberDueTime(_ member: ParkedMemberIndex) {
        let slot = parkedMembers[member]
        rounds[slot.round].members.earliestParkedDueMilliseconds[slot.environment] = min(
            rounds[slot.round].members.earliestParkedDueMilliseconds[slot.environment],
            slot.dueMilliseconds
        )
    }

    /// Parks a member again, after its push has failed or after it was read again. The next attempt is due after the
    /// pause.
    mutating func parkAgain(_ member: ParkedMemberIndex, pauseMilliseconds: Int64, now: Moment) {
        parkedMembers[member].isBeingHandled = false
        // Forget the version, because it may be finished before the member's next attempt.
        parkedMembers[member].rangeVersion = .null
        parkedMembers[member].dueMilliseconds = now.monotonicMilliseconds + pauseMilliseconds
        noteParkedMemberDueTime(member)
    }

    /// Returns a parked member that may get its push now. If there is none, returns nil, and notes in the round when
    /// the next attempt is due.
    mutating func findDueParkedMemberOrNoteDueTime(
        of round: RoundIndex,
        _ environment: APNsEnvironment,
        permitsRetry: Bool,
        now: Moment
    ) -> ParkedMemberIndex? {
        var earliestDueMilliseconds = Int64.max
        var member = rounds[round].members.firstParked
        while member != .null {
            let slot = parkedMembers.address(of: member)
            if !slot.pointee.isBeingHandled, slot.pointee.environment == environment {
                if slot.pointee.dueMilliseconds <= now.monotonicMilliseconds,
                    permitsRetry || slot.pointee.failedAttemptCount == 0
                {
                    return member
                }
                earliestDueMilliseconds = min(earliestDueMilliseconds, slot.pointee.dueMilliseconds)
            }
            member = slot.pointee.nextParkedMember
        }
        rounds[round].members.earliestParkedDueMilliseconds[environment] = earliestDueMilliseconds
        return nil
    }

    /// Gives a parked member its outcome and frees its slot. If the round has lost its claim, only frees the slot. The
    /// outcome is counted at once if the member is below the completed position. Otherwise it is stored on the member's
    /// page, and counted when the page is done.
    mutating func finishParkedMember(_ member: ParkedMemberIndex, _ outcome: MemberOutcome) {
        let slot = parkedMembers[member]
        let round = slot.round
        // A round that has lost its claim has no pages any more, so no page can keep the outcome. When the round is
        // claimed again, it continues with the counts of the last checkpoint.
        guard rounds[round].phase != .awaitingClaim else { return unpark(member) }
        let sentVersion = slot.rangeVersion == .null ? rounds[round].versions.last : slot.rangeVersion
        if slot.position < rounds[round].progress.completedPosition {
            countOutcome(slot.position, outcome, under: sentVersion, of: round)
        } else {
            pages[slot.page].setRangeVersion(Int(slot.memberIndex), sentVersion)
            pages[slot.page].setProgress(Int(slot.memberIndex), .done(outcome))
        }
        unpark(member)
    }

    /// Removes a member from the parked members of its round, and frees its slot. The member gets no outcome here.
    private mutating func unpark(_ member: ParkedMemberIndex) {
        let slot = parkedMembers[member]
        let round = slot.round
        if slot.nextParkedMember != .null {
            parkedMembers[slot.nextParkedMember].previousParkedMember = slot.previousParkedMember
        }
        if slot.previousParkedMember != .null {
            parkedMembers[slot.previousParkedMember].nextParkedMember = slot.nextParkedMember
        } else {
            rounds[round].members.firstParked = slot.nextParkedMember
        }
        if rounds[round].members.parkedMemberAwaitingPage == member {
            rounds[round].members.parkedMemberAwaitingPage = .null
        }
        parkedMembers.free(member)
        apps[Int(rounds[round].appIndex)].takenParkingPlaceCount -= 1
        rounds[round].members.parkedCount -= 1
        rounds[round].checkpoints.revision += 1
        guard slot.position == rounds[round].members.lowestParkedPosition else { return }
        var lowestPosition = UInt64.max
        var remainingMember = rounds[round].members.firstParked
        while remainingMember != .null {
            lowestPosition = min(lowestPosition, parkedMembers[remainingMember].position)
            remainingMember = parkedMembers[remainingMember].nextParkedMember
        }
        rounds[round].members.lowestParkedPosition = lowestPosition
    }

    /// Ends parked members as `superseded`, because the newer version `newest` has taken over and will reach them in
    /// their next turn. Two kinds of members stay parked: those on which the core works now
    /// (``ParkedMember/isBeingHandled``), and those that must get a carried alert before their next turn
    /// (``needsCarriedAlert(_:wasThrottled:of:now:)``).
    mutating func supersedeParkedMembers(by newest: RangeVersionIndex, of round: RoundIndex, now: Moment) {
        let startPosition = rangeVersions[newest].startPosition
        var member = rounds[round].members.firstParked
        while member != .null {
            let slot = parkedMembers[member]
            if !slot.isBeingHandled, slot.position < startPosition,
                !needsCarriedAlert(slot.position, wasThrottled: slot.wasThrottled, of: round, now: now)
            {
                finishParkedMember(member, .superseded)
            }
            member = slot.nextParkedMember
        }
    }

    /// Whether a member must get the newest version before its next turn, because otherwise it would miss an alert. All
    /// of this must be true:
    /// - The newest version carries the alert of an older version to the member's current position
    ///   (``RangeVersionSlot/bringsCarriedAlert(to:)``). In the member's next turn, one lap higher, the version comes
    ///   without this alert.
    /// - The alert is not too old.
    /// - APNs did not respond to the member's last attempt with 429.
    ///
    /// Known issue (K15): if the pool of such a member is unavailable, the round stops one lap above the member until
    /// the alert is too old. The members of the app's other pool wait too.
    func needsCarriedAlert(_ position: UInt64, wasThrottled: Bool, of round: RoundIndex, now: Moment) -> Bool {
        let newest = rounds[round].versions.last
        return newest != .null && !wasThrottled && rangeVersions[newest].bringsCarriedAlert(to: position)
            && !isAlertTooOld(newest, now: now)
    }

    /// Returns after how many milliseconds the newest version's carried alert is too old; nil if it is too old already,
    /// or if no parked member can need this alert (``needsCarriedAlert(_:wasThrottled:of:now:)``). When the time is
    /// over, the core finishes the members that stayed parked for the alert, and the round continues.
    func millisecondsUntilParkedMembersNeedNoAlert(_ round: RoundIndex, now: Moment) -> Int64? {
        let newest = rounds[round].versions.last
        guard newest != .null, rangeVersions[newest].isCarryingAlert,
            rounds[round].members.lowestParkedPosition < rangeVersions[newest].startPosition
        else { return nil }
        let record = rangeVersions[newest].record
        let waitMilliseconds =
            (record.alertVersion.timestamp + record.alertAgeSecondsMax + 1) * 1_000 - now.wallMilliseconds
        return waitMilliseconds > 0 ? waitMilliseconds : nil
    }

    /// Finishes the parked members that need no push any more, except those on which the core works now
    /// (``ParkedMember/isBeingHandled``). Called whenever a running round advances, because alerts and versions grow
    /// old.
    /// - `superseded`: the newest version will reach the member in its next turn. The member stays parked if it must
    ///   get the version's alert earlier (``needsCarriedAlert(_:wasThrottled:of:now:)``) and the version has not
    ///   expired.
    /// - `expired`: the newest version has no later turn for the member, and has expired. Or APNs delays the member,
    ///   and others need its place (``mustGiveUpDelayedMembers(of:now:)``).
    mutating func finishUnneededParkedMembers(of round: RoundIndex, now: Moment) {
        let newest = rounds[round].versions.last
        guard newest != .null, rounds[round].members.firstParked != .null else { return }
        let hasExpired = isExpired(newest, now: now)
        let mustGiveUpDelayed = !hasExpired && mustGiveUpDelayedMembers(of: round, now: now)
        let startPosition = rangeVersions[newest].startPosition
        var member = rounds[round].members.firstParked
        while member != .null {
            let slot = parkedMembers[member]
            if !slot.isBeingHandled, slot.position < startPosition {
                if hasExpired
                    || !needsCarriedAlert(slot.position, wasThrottled: slot.wasThrottled, of: round, now: now)
                {
                    finishParkedMember(member, .superseded)
                }
            } else if !slot.isBeingHandled, hasExpired || mustGiveUpDelayed && isDelayedByAPNs(slot, now: now) {
                finishParkedMember(member, .expired)
            }
            member = slot.nextParkedMember
        }
    }

    /// Removes all parked members of a round that ends or is claimed again. The caller has made sure that none of their
    /// pushes is in flight.
    mutating func removeParkedMembers(of round: RoundIndex) {
        while case let member = rounds[round].members.firstParked, member != .null { unpark(member) }
    }

    // MARK: - The places for parked members

    /// How many more members could be parked, even if all pushes in flight end with a parked member, and all rounds in
    /// the phase `restoring` park their members.
    var freeParkingPlaceCount: Int {
        parkedMembers.limit - parkedMembers.count - reservedParkingPlaceCount - parkablePushCount
    }

    /// Whether a round may park one more member, or send a push that may end with a parked member.
    ///
    /// If there are several apps, this is permitted only while the app uses fewer places than are free. So one app
    /// alone can use at most half of the places, and leaves the rest for other apps. (R22)
    func mayParkMember(of round: RoundIndex) -> Bool {
        let freeCount = freeParkingPlaceCount
        guard apps.count > 1 else { return freeCount > 0 }
        let appIndex = Int(rounds[round].appIndex)
        return apps[appIndex].takenParkingPlaceCount + apps[appIndex].parkablePushCount < freeCount
    }

    /// Whether a round may reserve places for all members that it must park again: with several apps, these members and
    /// the app's parked members together must fit into the free places. This is more than ``mayParkMember(of:)``
    /// permits. Otherwise a round with very many parked members would wait forever.
    func mayReserveParkingPlaces(_ memberCount: Int, for round: RoundIndex) -> Bool {
        let freeCount = freeParkingPlaceCount
        guard apps.count > 1 else { return memberCount <= freeCount }
        return apps[Int(rounds[round].appIndex)].takenParkingPlaceCount + memberCount <= freeCount
    }

    /// Returns the pause before a retry: a random time between a half and the whole of a time that doubles with each
    /// attempt, up to ``AudiencesConfiguration/retryPauseMillisecondsMax``.
    ///
    /// - Parameter failedAttemptCount: at least 1.
    mutating func chooseRetryPauseMilliseconds(failedAttemptCount: UInt8) -> Int64 {
        // At most 24 doublings, so that the number cannot overflow.
        let doublingCount = min(Int64(failedAttemptCount) - 1, 24)
        let doubledMilliseconds = AudiencesConfiguration.firstRetryPauseMilliseconds << doublingCount
        return random.jitteredMilliseconds(min(configuration.retryPauseMillisecondsMax, doubledMilliseconds))
    }
}
