import Delivery
import LiveActivity

/// The phases of a round (``RoundSlot/Phase``), from its claim to its end.
extension Audiences {
    /// Handles the store's reply to a claim. The round continues from the checkpoint in the reply or, if there is none,
    /// from the last one that it has recorded itself; without either, it begins. If the store may lack members, the
    /// round waits instead. If the round is no longer `claiming`, only frees it if it has finished.
    mutating func handleClaimReply(_ round: RoundIndex, _ reply: Reply?, now: Moment) {
        rounds[round].isClaimOrCheckpointOutstanding = false
        guard rounds[round].phase == .claiming else { return freeIfFinished(round, now: now) }
        if mustWaitForMembers(reply, round) { return beginWaitForMembers(round, now: now) }
        noteNewestAdmitted(reply?.newestVersion, of: round, now: now)
        rounds[round].checkpoints.claimOrCheckpointAtMilliseconds = now.monotonicMilliseconds
        // If the store has lost the checkpoint, use the last one that this round recorded.
        for text in [reply?.bytes, rounds[round].checkpoints.recordedText.bytes] {
            guard let text, !text.isEmpty, let checkpoint = Checkpoint(text) else { continue }
            restore(checkpoint, text, to: round)
            break
        }
        // `restore` has entered another phase if versions were under way in the checkpoint.
        if rounds[round].phase == .claiming { rounds[round].enter(.running) }
        beginOrEndReceivedVersions(of: round, now: now)
        guard rounds.isInUse(round) else { return }
        // Do not wait for versions if a record was passed over: see ``RoundVersions/wasClaimingAtLastPassOver``.
        let isRecordPassedOver =
            rounds[round].versions.firstPassedOverOffset != nil
            || rounds[round].versions.wasClaimingAtLastPassOver
        if isRecordPassedOver {
            endVersionWaitAfterPassOver(of: round, now: now)
        }
    }

    /// Lets a round continue from a checkpoint. If versions are under way in the checkpoint, the round waits for their
    /// records.
    private mutating func restore(_ checkpoint: Checkpoint, _ text: UnsafeRawBufferPointer, to round: RoundIndex) {
        rounds[round].progress.moveAllPositions(to: checkpoint.completedPosition)
        rounds[round].versions.newestSettled = checkpoint.newestSettledVersion
        guard let newestVersion = checkpoint.entries.last?.version else { return }
        rounds[round].enter(.awaitingVersions)
        rounds[round].checkpoints.restored.newestVersion = newestVersion
        rounds[round].checkpoints.restored.text = HeapBytes(copying: text)
        rounds[round].checkpoints.restored.parkedPositions = checkpoint.parkedPositions.withUnsafeBytes {
            HeapBytes(copying: $0)
        }
    }

    /// Returns how far a version had come in the checkpoint of the partition's previous owner. Nil if the version was
    /// not under way there, or if its record has already arrived.
    func restoredEntry(of version: Version, in round: RoundIndex) -> Checkpoint.Entry? {
        restoredEntries(of: round).first { $0.version == version }
    }

    /// Returns the versions that the partition's previous owner had under way and whose records have not arrived yet,
    /// oldest first. Call this only while the round's list has no version in the phase `received`, because then the
    /// last version in the list is the newest one.
    func restoredEntries(of round: RoundIndex) -> [Checkpoint.Entry] {
        let (newest, text) = (rounds[round].versions.last, rounds[round].checkpoints.restored.text)
        guard !text.isNone, let checkpoint = Checkpoint(text.bytes) else { return [] }
        if newest != .null { return checkpoint.entries.filter { $0.version > rangeVersions[newest].record.version } }
        // No record of the versions in the checkpoint has arrived yet. Return also the versions older than
        // `newestSettled`: a newer version may have settled first, because it was replaced before it reached any
        // member.
        if rounds[round].phase == .awaitingVersions { return checkpoint.entries }
        return checkpoint.entries.filter { $0.version > rounds[round].versions.newestSettled }
    }

    /// Forgets how far the partition's previous owner had come with each version. If the record of such a version
    /// arrives later, the version does not continue where the previous owner stopped. Only the text in memory is
    /// forgotten: the parked members' positions stay, and so does the checkpoint in Redis.
    mutating func forgetRestoredCheckpoint(_ round: RoundIndex) {
        rounds[round].checkpoints.restored.text.free()
        rounds[round].checkpoints.restored.text = .none
    }

    /// Notes the newest version that the store has admitted. Does nothing if the store has named none, or none that is
    /// newer than the noted one.
    ///
    /// While the round waits for the record of this version (``awaitsNewerVersion(_:)``), it sends nothing. Otherwise a
    /// member might get an older version after this version: if the number of ranges has changed, another round may
    /// already send this version to members of this round.
    mutating func noteNewestAdmitted(_ version: Version?, of round: RoundIndex, now: Moment) {
        guard let version, version > rounds[round].versions.newestAdmitted else { return }
        rounds[round].versions.newestAdmitted = version
        let newestSeenVersion = max(newestListedVersion(of: round) ?? .zero, rounds[round].versions.newestSettled)
        rounds[round].versions.newestAdmittedMissingSinceMilliseconds =
            version > newestSeenVersion ? now.monotonicMilliseconds : nil
    }

    /// Whether the round must send nothing, because the store has admitted a version newer than all that the round
    /// knows, and the record of this version has not arrived.
    ///
    /// False while one of the round's records is passed over (R30). The passed-over record may be the missing one, and
    /// may get room only when the older versions have ended. So a wait for it could last forever.
    func awaitsNewerVersion(_ round: RoundIndex) -> Bool {
        rounds[round].versions.newestAdmittedMissingSinceMilliseconds != nil
            && rounds[round].versions.firstPassedOverOffset == nil
    }

    /// Takes the steps that the round's phase permits now: for example, queues calls to the store for pages, a
    /// checkpoint or a new claim, and puts the round into the queue from which the shell takes pushes. Sets the round's
    /// timer. Frees the round if it has nothing left to do.
    mutating func advance(_ round: RoundIndex, now: Moment) {
        switch rounds[round].phase {
        case .claiming, .abandoned: break
        case .awaitingVersions:
            // Return, because `resumeAfterWaitForVersions` may end the round and free its slot.
            if stopAwaitingVersionsIfDue(round, now: now) { return resumeAfterWaitForVersions(round, now: now) }
        case .restoring:
            readParkedMembersAgain(of: round, now: now)
            if rounds[round].phase == .running { return advance(round, now: now) }
        case .running:
            finishUnneededParkedMembers(of: round, now: now)
            expireUnsentMembers(of: round, now: now)
            stopAwaitingNewerVersionIfDue(round, now: now)
            discardOldUnsentMembersIfHalted(round, now: now)
            prefetchPages(of: round)
            freeDonePages(of: round, now: now)
            endIfNoVersionIsLeft(round)
            if rounds[round].isForStarts {
                produceStarts(of: round, now: now)
            } else if rounds[round].phase == .running {
                addToSendQueue(round)
            }
        case .awaitingClaim: claimAgainIfDue(round, now: now)
        case .ending, .draining: break
        }
        queueDueCheckpointAndSetTimer(round, now: now)
        freeIfFinished(round, now: now)
    }

    /// Ends the wait for the record of a newer admitted version after `newerVersionWaitMillisecondsMax`: the record may
    /// never come, because with another number of ranges the version's records are for other ranges. Closes all
    /// versions of the round, and ends its parked members as superseded, except those on which the core works now.
    private mutating func stopAwaitingNewerVersionIfDue(_ round: RoundIndex, now: Moment) {
        guard awaitsNewerVersion(round),
            let missingSinceMilliseconds = rounds[round].versions.newestAdmittedMissingSinceMilliseconds,
            now.monotonicMilliseconds - missingSinceMilliseconds >= configuration.newerVersionWaitMillisecondsMax
        else { return }
        rounds[round].versions.newestAdmittedMissingSinceMilliseconds = nil
        closeAllVersions(of: round)
        var member = rounds[round].members.firstParked
        while member != .null {
            let next = parkedMembers[member].nextParkedMember
            if !parkedMembers[member].isBeingHandled { finishParkedMember(member, .superseded) }
            member = next
        }
    }

    /// Ends the round's wait for the versions that the partition's previous owner had under way, if the round has
    /// waited long enough: closes the versions that have arrived. Otherwise sets the round's timer.
    ///
    /// The wait ends `newerVersionWaitMillisecondsMax` after the partition's last record or the reply to the claim,
    /// whichever came later, but at most `versionsOfPreviousOwnerWaitMillisecondsMax` after the reply. (R4) A record
    /// may never come: after partitions were added to the fan-out topic, the previous owner may have settled it in
    /// another partition.
    ///
    /// - Returns: whether the wait has ended. If so, the caller must resume the round.
    private mutating func stopAwaitingVersionsIfDue(_ round: RoundIndex, now: Moment) -> Bool {
        let lastRecordAtMilliseconds = partitions.partition(
            rounds[round].partitionIndex,
            assignmentEpoch: rounds[round].assignmentEpoch
        )?
        .pointee
        .lastRecordAtMilliseconds
        // A round records no checkpoint while it waits for versions, so `claimOrCheckpointAtMilliseconds` is still the
        // time at which the round's claim succeeded.
        let claimedAtMilliseconds = rounds[round].checkpoints.claimOrCheckpointAtMilliseconds
        let waitEndMilliseconds = min(
            max(claimedAtMilliseconds, lastRecordAtMilliseconds ?? .min)
                + configuration.newerVersionWaitMillisecondsMax,
            claimedAtMilliseconds + configuration.versionsOfPreviousOwnerWaitMillisecondsMax
        )
        guard waitEndMilliseconds <= now.monotonicMilliseconds else {
            scheduleAdvance(of: round, at: waitEndMilliseconds)
            return false
        }
        closeAllVersions(of: round)
        forgetRestoredCheckpoint(round)
        return true
    }

    /// Continues a round that has waited for versions of the partition's previous owner.
    mutating func resumeAfterWaitForVersions(_ round: RoundIndex, now: Moment) {
        rounds[round].endWaitForVersions()
        advance(round, now: now)
    }

    /// Closes every version under way (``closeVersion(_:of:)``), because the members above the current position get a
    /// newer version. This round does not have the newer version's record: the record was passed over (R30), is for
    /// other ranges, or is in another partition.
    mutating func closeAllVersions(of round: RoundIndex) {
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if rangeVersions[rangeVersion].phase == .underWay { closeVersion(rangeVersion, of: round) }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
    }

    /// Makes a running round end if it has no version left: all its versions have settled, or were already settled when
    /// their records arrived.
    private mutating func endIfNoVersionIsLeft(_ round: RoundIndex) {
        guard rounds[round].phase == .running, rounds[round].versions.first == .null else { return }
        rounds[round].enter(.ending)
        discardAllPages(of: round)
    }

    /// Returns the position at which the round stops reading members: the end of the newest version's window, but at
    /// most one lap above the lowest parked member, where this member has its next turn (R28). Returns 0 without a
    /// version.
    ///
    /// Call it only while the round's list has no version in the phase `received`: then the last version is the newest
    /// one. The position may become lower when a member is parked. Even then, all pages of the round begin below it,
    /// because the round reads less than one lap ahead of its first page.
    func readingEndPosition(of round: RoundIndex) -> UInt64 {
        let newest = rounds[round].versions.last
        guard newest != .null else { return 0 }
        let endPosition = rangeVersions[newest].endPosition
        let lowestParkedPosition = rounds[round].members.lowestParkedPosition
        guard lowestParkedPosition != .max else { return endPosition }
        return min(endPosition, lowestParkedPosition + rounds[round].progress.positionsPerLap)
    }

    /// Makes sure that ``advance(_:now:)`` is called for the round at this monotonic time or earlier.
    mutating func scheduleAdvance(of round: RoundIndex, at milliseconds: Int64) {
        guard milliseconds < rounds[round].timerDueMilliseconds else { return }
        rounds[round].timerDueMilliseconds = milliseconds
        startTimer(.round(round), dueMilliseconds: milliseconds)
    }

    // MARK: - The end of a round

    /// Whether the outcomes of all pushes that were sent are known, so that a checkpoint can have them: no push or
    /// start is under way, no refused member is being recorded, and no parked member is being read again.
    func areAllMemberOutcomesKnown(_ round: RoundIndex) -> Bool {
        rounds[round].members.inFlightCount == 0 && rounds[round].members.refusedOrReadAgainCount == 0
    }

    /// Frees a round that has nothing left to do. Only a drained or abandoned round may then have versions that are not
    /// settled. They are dropped, so that the range's next owner reads their records again. Does nothing while a call,
    /// a push or a late version needs the slot. (R8)
    mutating func freeIfFinished(_ round: RoundIndex, now: Moment) {
        let slot = rounds[round]
        guard !slot.isClaimOrCheckpointOutstanding, slot.versions.lateVersionCount == 0,
            areAllMemberOutcomesKnown(round)
        else { return }
        switch slot.phase {
        case .claiming, .restoring, .running, .awaitingClaim: return
        // If the round's list of versions is empty, all records that have arrived are settled. The store still has the
        // previous owner's checkpoint: if another record comes, a new round continues from this checkpoint.
        case .awaitingVersions: guard slot.versions.first == .null else { return }
        case .ending: guard !slot.checkpoints.hasUnrecordedChanges, slot.versions.first == .null else { return }
        // Keep the round until its results under way are acknowledged, so that their records settle. Otherwise the next
        // owner writes these results again.
        case .draining: guard !slot.checkpoints.hasUnrecordedChanges, !hasFinishingVersion(round) else { return }
        case .abandoned: guard !hasFinishingVersion(round) else { return }
        }
        dropVersions(of: round)
        free(round: round)
    }

    /// Drops all versions of a round without settling them, so that the next owner reads their records again.
    private mutating func dropVersions(of round: RoundIndex) {
        while let rangeVersion = rounds[round].versions.list.popFirst(in: &rangeVersions) {
            dropVersion(rangeVersion)
        }
    }

    private mutating func free(round: RoundIndex) {
        discardAllPages(of: round)
        removeParkedMembers(of: round)
        removeFromQueues(round)
        let key = rounds[round].key
        if roundsByKey[key] == round { roundsByKey[key] = nil }
        rounds[round].freeBytes()
        rounds.free(round)
    }

    /// Stops a round, because its partition is being revoked: the round sends no further push.
    mutating func drain(_ round: RoundIndex, now: Moment) {
        switch rounds[round].phase {
        case .claiming, .awaitingVersions:
            // Nothing was sent since the claim, so record no checkpoint. A checkpoint would replace that of the
            // partition's previous owner, which the round perhaps does not know yet.
            rounds[round].checkpoints.recordedRevision = rounds[round].checkpoints.revision
            rounds[round].enter(.draining)
        case .restoring, .running:
            releaseParkingPlaces(of: round)
            rounds[round].enter(.draining)
            discardUnsentMembers(of: round)
            freeDonePages(of: round, now: now)
        // A round in this phase has lost its claim or has not begun, so it records nothing.
        case .awaitingClaim: return abandon(round, now: now)
        case .ending, .draining, .abandoned: break
        }
        advance(round, now: now)
    }

    /// Abandons a round: its pushes in flight still get their responses, but their outcomes are not recorded any more,
    /// because another worker may have claimed the range. (R29)
    mutating func abandon(_ round: RoundIndex, now: Moment) {
        guard rounds[round].phase != .abandoned else { return freeIfFinished(round, now: now) }
        releaseParkingPlaces(of: round)
        rounds[round].enter(.abandoned)
        let key = rounds[round].key
        if roundsByKey[key] == round { roundsByKey[key] = nil }
        noteDroppedVersionsOfOtherPartitions(of: round)
        discardAllPages(of: round)
        freeIfFinished(round, now: now)
    }
}
