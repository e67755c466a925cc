import Delivery
import LiveActivity

/// How a range version (``RangeVersionSlot``) is finished: its counts are recorded, Kafka gets its result, and its
/// record settles.
extension Audiences {
    /// Counts a member's outcome in each version under way whose window has the member's position. `sentVersion`, which
    /// the push or start brought or would have brought, counts `outcome`. Each other version counts `superseded`. The
    /// app's metrics count `outcome`, too.
    mutating func countOutcome(
        _ position: UInt64,
        _ outcome: MemberOutcome,
        under sentVersion: RangeVersionIndex,
        of round: RoundIndex
    ) {
        apps[Int(rounds[round].appIndex)].memberOutcomeCounts[Int(outcome.rawValue)] &+= 1
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            let slot = rangeVersions.mutableAddress(of: rangeVersion)
            if slot.pointee.phase == .underWay, slot.pointee.windowContains(position) {
                slot.pointee.counts[rangeVersion == sentVersion ? outcome : .superseded] &+= 1
            }
            rangeVersion = slot.pointee.nextInList
        }
        rounds[round].checkpoints.revision += 1
    }

    /// Makes each version that has nothing left to do enter the phase `awaitingCheckpoint`, if the round is running or
    /// draining. A version has nothing left to do in two cases:
    /// - All members of its window have their outcomes.
    /// - Its window is empty, and no parked member is getting a push of the version.
    mutating func letCompleteVersionsAwaitCheckpoint(of round: RoundIndex) {
        guard rounds[round].phase == .running || rounds[round].phase == .draining else { return }
        let (completedPosition, lowestParkedPosition) = (
            rounds[round].progress.completedPosition, rounds[round].members.lowestParkedPosition
        )
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            let slot = rangeVersions[rangeVersion]
            let hasPassedAll = completedPosition >= slot.endPosition && lowestParkedPosition >= slot.endPosition
            // An empty window has no members of its own. But the version may be on its way to a parked member of an
            // older version's window. Wait only for such a push, and not for the other parked members, which may stay
            // parked for hours.
            let isEmptyAndIdle =
                slot.isSuperseded && slot.startPosition == slot.endPosition && !isInFlightToParkedMember(rangeVersion)
            if slot.phase == .underWay, hasPassedAll || isEmptyAndIdle {
                rounds[round].checkpoints.revision += 1
                rangeVersions[rangeVersion].enter(.awaitingCheckpoint)
                rangeVersions[rangeVersion].completionRevision = rounds[round].checkpoints.revision
            }
            rangeVersion = slot.nextInList
        }
    }

    /// Whether a push that brings this version to a parked member is in flight, or its refusal is being recorded.
    private func isInFlightToParkedMember(_ rangeVersion: RangeVersionIndex) -> Bool {
        var member = rounds[rangeVersions[rangeVersion].round].members.firstParked
        while member != .null {
            let slot = parkedMembers.address(of: member)
            if slot.pointee.isBeingHandled, slot.pointee.rangeVersion == rangeVersion { return true }
            member = slot.pointee.nextParkedMember
        }
        return false
    }

    /// Begins to finish the versions whose counts are in the last recorded checkpoint: if the worker dies now, the next
    /// owner continues from this checkpoint, and reports the same counts. A checkpoint that is too long, or that the
    /// store refuses, counts as recorded. Does nothing unless the round is running.
    mutating func finishRecordedVersions(of round: RoundIndex) {
        guard rounds[round].phase == .running else { return }
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            let next = rangeVersions[rangeVersion].nextInList
            if rangeVersions[rangeVersion].phase == .awaitingCheckpoint,
                rangeVersions[rangeVersion].completionRevision <= rounds[round].checkpoints.recordedRevision
            {
                beginFinishing(rangeVersion)
            }
            rangeVersion = next
        }
    }

    func hasVersionAwaitingCheckpoint(_ round: RoundIndex) -> Bool {
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if rangeVersions[rangeVersion].phase == .awaitingCheckpoint { return true }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return false
    }

    /// Queues the two steps that finish a version: its result for Kafka, and the call that adds its counts to those of
    /// the command.
    private mutating func beginFinishing(_ rangeVersion: RangeVersionIndex) {
        rangeVersions[rangeVersion].enter(.finishing)
        rangeVersions[rangeVersion].unacknowledgedCount = 2
        outgoingRecords.append(.rangeResult(rangeVersion))
        storeQueue.append(.finishRange(rangeVersion))
    }

    /// Begins to finish a late version (``RangeVersionSlot/isLate``) as `superseded`, because a newer version reaches
    /// every member.
    mutating func finishLateVersion(_ rangeVersion: RangeVersionIndex, of round: RoundIndex) {
        rounds[round].versions.lateVersionCount += 1
        rangeVersions[rangeVersion].isLate = true
        rangeVersions[rangeVersion].isSuperseded = true
        beginFinishing(rangeVersion)
    }

    /// Called when the store has added the counts of a range, or has refused the call. If all ranges and broadcasts of
    /// the command are finished, the reply has the command's totals, and the core also writes the result of the whole
    /// command.
    mutating func handleFinishRangeReply(_ rangeVersion: RangeVersionIndex, _ reply: Reply?, now: Moment) {
        if let totals = reply.flatMap(AudienceTotals.init) {
            rangeVersions[rangeVersion].totals = totals
            rangeVersions[rangeVersion].unacknowledgedCount += 1
            outgoingRecords.append(.commandResult(rangeVersion))
        }
        callOrRecordAcknowledged(of: rangeVersion, now: now)
    }

    /// Called when the store or Kafka has acknowledged, or refused for good, one call or record of a finishing version.
    /// After the last one, the version is finished: it settles now, or after the round's older versions. Then the round
    /// advances.
    mutating func callOrRecordAcknowledged(of rangeVersion: RangeVersionIndex, now: Moment) {
        rangeVersions[rangeVersion].unacknowledgedCount -= 1
        guard rangeVersions[rangeVersion].unacknowledgedCount == 0 else { return }
        let round = rangeVersions[rangeVersion].round
        if rangeVersions[rangeVersion].isLate {
            rounds[round].versions.lateVersionCount -= 1
            settle(rangeVersion)
        } else {
            rangeVersions[rangeVersion].enter(.finished)
            settleFinishedVersions(of: round)
        }
        advance(round, now: now)
    }

    /// Settles finished versions, the oldest first. A version settles only after all older ones: a new owner of the
    /// partition must read it and the unfinished ones again.
    ///
    /// Exception: a finished version that a newer one has replaced settles at once. A new owner does not need its
    /// record, and older versions may stay open for hours.
    private mutating func settleFinishedVersions(of round: RoundIndex) {
        var isOldest = true
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            let slot = rangeVersions[rangeVersion]
            let isReplaced = slot.isSuperseded && rangeVersion != rounds[round].versions.last
            if slot.phase == .finished, isOldest || isReplaced {
                rounds[round].versions.list.remove(rangeVersion, in: &rangeVersions)
                rounds[round].versions.newestSettled = max(rounds[round].versions.newestSettled, slot.record.version)
                rounds[round].checkpoints.revision += 1
                settle(rangeVersion)
            } else {
                isOldest = false
            }
            rangeVersion = slot.nextInList
        }
    }

    /// Settles the record of `duplicate` without a result: the round has the same version from an earlier record
    /// (`original`), which writes the result.
    ///
    /// If the partition of the original's record has been released, that record can no longer settle. Then the original
    /// takes over the partition and offset of the duplicate's record.
    mutating func settleDuplicate(_ duplicate: RangeVersionIndex, of original: RangeVersionIndex) {
        guard isPartitionReleased(of: rangeVersions[original].record) else { return settle(duplicate) }
        rangeVersions[original].record.copyPartitionAndOffset(of: rangeVersions[duplicate].record)
        freeVersion(duplicate)
    }

    /// Settles the record of a version, unless the record's partition has been released, and frees the version. Call
    /// this only if the version is finished, or if the round has already settled this version or a newer one.
    mutating func settle(_ rangeVersion: RangeVersionIndex) {
        let slot = rangeVersions[rangeVersion]
        if let partition = partitions.partition(
            slot.record.partitionIndex,
            assignmentEpoch: slot.record.assignmentEpoch
        ) {
            partition.pointee.ledger.settle(slot.record.offset)
            partition.pointee.unsettledRecordCount -= 1
        }
        freeVersion(rangeVersion)
    }

    /// Frees a version without settling its record, so that the record is read again.
    mutating func dropVersion(_ rangeVersion: RangeVersionIndex) {
        noteDropped(rangeVersions[rangeVersion].record, ofApp: rounds[rangeVersions[rangeVersion].round].appIndex)
        freeVersion(rangeVersion)
    }

    private mutating func freeVersion(_ rangeVersion: RangeVersionIndex) {
        addFanoutRecordBytes(-rangeVersions[rangeVersion].occupiedBytes, of: rangeVersion)
        apps[Int(rounds[rangeVersions[rangeVersion].round].appIndex)].fanoutRecordCount -= 1
        rangeVersions[rangeVersion].freeBytes()
        rangeVersions.free(rangeVersion)
    }
}
