import Delivery
import LiveActivity

/// When a round (``RoundSlot``) records a checkpoint, and what the checkpoint contains. (R29)
extension Audiences {
    /// Queues a checkpoint if the round has unrecorded changes and its next checkpoint is due, unless a claim or a
    /// checkpoint has no reply yet, or the round's phase permits none. In any case, sets the timer of a running or
    /// restoring round.
    mutating func queueDueCheckpointAndSetTimer(_ round: RoundIndex, now: Moment) {
        let slot = rounds[round]
        let isFinal = slot.phase == .ending || slot.phase == .draining
        let mayRecord =
            slot.phase == .running || slot.phase == .restoring || (isFinal && areAllMemberOutcomesKnown(round))
        let hasUnrecordedChanges = slot.checkpoints.hasUnrecordedChanges
        let isNeededNow = isFinal || hasVersionAwaitingCheckpoint(round)
        let dueMilliseconds = isNeededNow ? now.monotonicMilliseconds : checkpointDueMilliseconds(round)
        if mayRecord, hasUnrecordedChanges, !slot.isClaimOrCheckpointOutstanding,
            dueMilliseconds <= now.monotonicMilliseconds
        {
            rounds[round].isClaimOrCheckpointOutstanding = true
            rounds[round].checkpoints.claimOrCheckpointAtMilliseconds = now.monotonicMilliseconds
            storeQueue.append(.checkpoint(round))
        }
        setTimer(round, now: now)
    }

    /// Returns when the next checkpoint is due: at the first multiple of `checkpointIntervalMilliseconds` after the
    /// last claim or checkpoint. So the checkpoints of all rounds of a lane are due at the same times, and share calls
    /// to the store.
    private func checkpointDueMilliseconds(_ round: RoundIndex) -> Int64 {
        let intervalMilliseconds = configuration.checkpointIntervalMilliseconds
        let claimOrCheckpointAtMilliseconds = rounds[round].checkpoints.claimOrCheckpointAtMilliseconds
        return (claimOrCheckpointAtMilliseconds / intervalMilliseconds + 1) * intervalMilliseconds
    }

    /// Sets the timer of a running or restoring round to the earliest time at which the round must advance although
    /// nothing else makes it advance, for example the next checkpoint or the expiration of the newest version.
    private mutating func setTimer(_ round: RoundIndex, now: Moment) {
        let slot = rounds[round]
        guard slot.phase == .running || slot.phase == .restoring else { return }
        var dueMilliseconds = Int64.max
        if slot.checkpoints.hasUnrecordedChanges, !slot.isClaimOrCheckpointOutstanding {
            dueMilliseconds = max(now.monotonicMilliseconds + 1, checkpointDueMilliseconds(round))
        }
        let earliestParkedDueMilliseconds = slot.members.earliestParkedDueMilliseconds
        if earliestParkedDueMilliseconds.production > now.monotonicMilliseconds {
            dueMilliseconds = min(dueMilliseconds, earliestParkedDueMilliseconds.production)
        }
        if earliestParkedDueMilliseconds.sandbox > now.monotonicMilliseconds {
            dueMilliseconds = min(dueMilliseconds, earliestParkedDueMilliseconds.sandbox)
        }
        // Only a running round ends its wait for a newer version, so set a timer for this wait only in the phase
        // `running`. In the phase `restoring`, the end of the wait may be in the past, and the timer would fire again
        // and again.
        if slot.phase == .running, awaitsNewerVersion(round),
            let missingSinceMilliseconds = slot.versions.newestAdmittedMissingSinceMilliseconds
        {
            dueMilliseconds = min(
                dueMilliseconds,
                missingSinceMilliseconds + configuration.newerVersionWaitMillisecondsMax
            )
        }
        if let next = moveToNextMemberIfHalted(round) {
            let discardDueMilliseconds = discardDueMilliseconds(of: next.page)
            dueMilliseconds = min(dueMilliseconds, max(now.monotonicMilliseconds + 1, discardDueMilliseconds))
        }
        if slot.versions.last != .null {
            let waitMilliseconds =
                (expiresAtSeconds(of: rangeVersions[slot.versions.last].record) + 1) * 1_000 - now.wallMilliseconds
            if waitMilliseconds > 0 {
                dueMilliseconds = min(dueMilliseconds, now.monotonicMilliseconds + waitMilliseconds)
            }
        }
        if let waitMilliseconds = millisecondsUntilParkedMembersNeedNoAlert(round, now: now) {
            dueMilliseconds = min(dueMilliseconds, now.monotonicMilliseconds + waitMilliseconds)
        }
        if let checkDueMilliseconds = giveUpCheckDueMilliseconds(round, now: now) {
            dueMilliseconds = min(dueMilliseconds, checkDueMilliseconds)
        }
        scheduleAdvance(of: round, at: dueMilliseconds)
    }

    /// Composes the text of a round's checkpoint. Keeps a copy of the text as `textBeingRecorded`, and its revision as
    /// `composedRevision`. Returns nil, and keeps no copy, if the text is too long: the store then keeps the previous
    /// checkpoint.
    mutating func composeCheckpointText(of round: RoundIndex) -> [UInt8]? {
        let slot = rounds[round]
        var checkpoint = Checkpoint(
            completedPosition: slot.progress.completedPosition,
            newestSettledVersion: slot.versions.newestSettled
        )
        var rangeVersion = slot.versions.first
        while rangeVersion != .null {
            let versionSlot = rangeVersions[rangeVersion]
            var entry = Checkpoint.Entry(
                version: versionSlot.record.version,
                startPosition: min(versionSlot.startPosition, slot.progress.completedPosition),
                counts: versionSlot.counts,
                times: versionSlot.times
            )
            let isClosed = versionSlot.endPosition - versionSlot.startPosition != slot.progress.positionsPerLap
            // In the checkpoint, the window of a closed version ends at the completed position at the latest. The
            // members above this position get a newer version from the next owner, and must count only for the newer
            // version.
            if isClosed {
                entry.positionCount =
                    max(entry.startPosition, min(versionSlot.endPosition, slot.progress.completedPosition))
                    - entry.startPosition
            }
            if versionSlot.phase != .received { checkpoint.entries.append(entry) }
            rangeVersion = versionSlot.nextInList
        }
        checkpoint.entries += restoredEntries(of: round)
        var member = slot.members.firstParked
        while member != .null {
            checkpoint.parkedPositions.append(parkedMembers[member].position)
            member = parkedMembers[member].nextParkedMember
        }
        var unreadCheckpoint = slot.checkpoints.restored
        while let position = unreadCheckpoint.nextParkedPosition {
            checkpoint.parkedPositions.append(position)
            unreadCheckpoint.readPositionCount += 1
        }
        checkpoint.parkedPositions.sort()
        rounds[round].checkpoints.composedRevision = slot.checkpoints.revision
        // Leave out parked members at the completed position or above: the next owner reads all members there anyway.
        checkpoint.parkedPositions.removeAll { $0 >= slot.progress.completedPosition }
        let text = checkpoint.encode()
        rounds[round].checkpoints.textBeingRecorded.free()
        rounds[round].checkpoints.textBeingRecorded = text?.withUnsafeBytes { HeapBytes(copying: $0) } ?? .none
        return text
    }

    /// Handles the store's reply to a checkpoint. If the reply says that the round has lost its claim, calls
    /// `handleLostClaim`. Otherwise the checkpoint counts as recorded, a running round begins to finish the versions
    /// that waited for it, and the round advances.
    ///
    /// - Parameter reply: nil if the store has refused the checkpoint, or if the checkpoint was too long.
    mutating func handleCheckpointReply(_ round: RoundIndex, _ reply: Reply?, now: Moment) {
        rounds[round].isClaimOrCheckpointOutstanding = false
        rounds[round].checkpoints.recordedRevision = rounds[round].checkpoints.composedRevision
        noteNewestAdmitted(reply?.newestVersion, of: round, now: now)
        if let verdict = reply?.verdict, verdict == .claimedByAnother || verdict == .claimLost {
            counters.lostRoundCount &+= 1
            return handleLostClaim(round, areMembersLost: verdict == .claimLost, now: now)
        }
        if reply?.verdict == .settled {
            rounds[round].checkpoints.recordedText.free()
            rounds[round].checkpoints.recordedText = rounds[round].checkpoints.textBeingRecorded
            rounds[round].checkpoints.textBeingRecorded = .none
        }
        finishRecordedVersions(of: round)
        advance(round, now: now)
    }
}
