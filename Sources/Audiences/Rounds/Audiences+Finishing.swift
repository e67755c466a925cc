import Delivery
import LiveActivity

/// The end of a version in its range: its counts are recorded, Kafka gets its result, and its record settles.
extension Audiences {
    /// Counts one member in each version under way that must pass the member's position. The version that was sent to
    /// the member counts this outcome, and the others count `superseded`.
    mutating func countOutcome(
        _ position: UInt64,
        _ outcome: MemberOutcome,
        under sentVersion: VersionIndex,
        of round: RoundIndex
    ) {
        appQueues[Int(rounds[round].appIndex)].memberOutcomeCounts[Int(outcome.rawValue)] &+= 1
        var version = rounds[round].versions.oldest
        while version != .null {
            let slot = versions.mutableAddress(of: version)
            if slot.pointee.stage == .underWay, slot.pointee.covers(position) {
                slot.pointee.counts[version == sentVersion ? outcome : .superseded] &+= 1
            }
            version = slot.pointee.nextVersion
        }
        rounds[round].checkpoints.revision += 1
    }

    /// Sets the stage `awaitingCheckpoint` of each version that has nothing left to do: all members of its window (the
    /// positions that it must pass) have their outcomes, or its window is empty and none of its pushes is under way.
    mutating func completeVersions(of round: RoundIndex) {
        guard rounds[round].phase == .running || rounds[round].phase == .draining else { return }
        let (watermark, lowestParkedPosition) = (
            rounds[round].progress.watermark, rounds[round].members.lowestParkedPosition
        )
        var version = rounds[round].versions.oldest
        while version != .null {
            let slot = versions[version]
            let hasPassedAll = watermark >= slot.endPosition && lowestParkedPosition >= slot.endPosition
            // A version with an empty window has no members. The parked members below the window belong to
            // older versions and may wait for hours, so the version does not wait for them.
            let isEmpty =
                slot.isSuperseded && slot.startPosition == slot.endPosition && !isInFlightToParkedMember(version)
            if slot.stage == .underWay, hasPassedAll || isEmpty {
                rounds[round].checkpoints.revision += 1
                versions[version].stage = .awaitingCheckpoint
                versions[version].completedAtRevision = rounds[round].checkpoints.revision
            }
            version = slot.nextVersion
        }
    }

    /// Whether a push that brings this version to a parked member is in flight, or its refusal is being recorded.
    private func isInFlightToParkedMember(_ version: VersionIndex) -> Bool {
        var member = rounds[versions[version].round].members.firstParked
        while member != .null {
            let slot = parkedMembers.address(of: member)
            if slot.pointee.isUnderWay, slot.pointee.version == version { return true }
            member = slot.pointee.nextParkedMember
        }
        return false
    }

    /// Finishes the versions whose counts are in the checkpoint that was just recorded. If the worker dies, the next
    /// owner reports the same counts, because it continues from this checkpoint. A checkpoint whose text is too long,
    /// or that the store refuses, is treated as recorded.
    mutating func finishRecordedVersions(of round: RoundIndex) {
        guard rounds[round].phase == .running else { return }
        var version = rounds[round].versions.oldest
        while version != .null {
            let next = versions[version].nextVersion
            if versions[version].stage == .awaitingCheckpoint,
                versions[version].completedAtRevision <= rounds[round].checkpoints.recordedRevision
            {
                beginFinishing(version)
            }
            version = next
        }
    }

    func hasVersionAwaitingCheckpoint(_ round: RoundIndex) -> Bool {
        var version = rounds[round].versions.oldest
        while version != .null {
            if versions[version].stage == .awaitingCheckpoint { return true }
            version = versions[version].nextVersion
        }
        return false
    }

    private mutating func beginFinishing(_ version: VersionIndex) {
        versions[version].stage = .finishing
        versions[version].unacknowledgedCount = 2
        outgoingRecords.append(.rangeResult(version))
        storeQueue.append(.finishRange(version))
    }

    /// Finishes a late version: the round knows a newer one, and the last owner did not have the late version under
    /// way. The outcome is `superseded`, because the newer version reaches every member.
    mutating func finishLateVersion(_ version: VersionIndex, of round: RoundIndex) {
        rounds[round].versions.lateCount += 1
        versions[version].isLate = true
        versions[version].isSuperseded = true
        beginFinishing(version)
    }

    /// Called when the store has added the counts of a range, or has refused the call. If all ranges and broadcasts of
    /// the command are finished, the reply has the command's totals.
    mutating func rangeCounted(_ version: VersionIndex, _ reply: Reply?, now: Moment) {
        if let totals = reply.flatMap(AudienceTotals.init) {
            versions[version].totals = totals
            versions[version].unacknowledgedCount += 1
            outgoingRecords.append(.commandResult(version))
        }
        versionAcknowledged(version, now: now)
    }

    mutating func versionAcknowledged(_ version: VersionIndex, now: Moment) {
        versions[version].unacknowledgedCount -= 1
        guard versions[version].unacknowledgedCount == 0 else { return }
        let round = versions[version].round
        if versions[version].isLate {
            rounds[round].versions.lateCount -= 1
            settle(version)
        } else {
            versions[version].stage = .finished
            settleFinishedVersions(of: round)
        }
        advance(round, now: now)
    }

    /// Settles finished versions, the oldest first. While an older version is open, the newest version stays unsettled,
    /// so that a new owner of the partition reads both again.
    ///
    /// A replaced version does not wait for older versions, which may stay open for hours. A new owner does not need
    /// its record, because it reads the newer version that replaced it.
    private mutating func settleFinishedVersions(of round: RoundIndex) {
        var isOldest = true
        var version = rounds[round].versions.oldest
        while version != .null {
            let slot = versions[version]
            let isReplaced = slot.isSuperseded && version != rounds[round].versions.newest
            if slot.stage == .finished, isOldest || isReplaced {
                unlink(version, of: round)
                rounds[round].versions.newestSettled = max(rounds[round].versions.newestSettled, slot.record.version)
                rounds[round].checkpoints.revision += 1
                settle(version)
            } else {
                isOldest = false
            }
            version = slot.nextVersion
        }
    }

    mutating func unlink(_ version: VersionIndex, of round: RoundIndex) {
        let predecessor = precedingVersion(version, of: round)
        let next = versions[version].nextVersion
        if let predecessor { versions[predecessor].nextVersion = next } else { rounds[round].versions.oldest = next }
        if rounds[round].versions.newest == version { rounds[round].versions.newest = predecessor ?? .null }
    }

    /// Settles a record without writing a result, because its range has settled the same version or a newer one before.
    mutating func settleWithoutResult(_ version: VersionIndex) { settle(version) }

    /// Settles the record of `version` without writing a result, because the round has the same version from another
    /// record (`known`).
    ///
    /// If the assignment of the other record has ended, `version` is freed, and `known` gets its offset. This offset
    /// settles when `known` ends. If `known` is dropped, this lane reads the record at this offset again.
    mutating func settleRepeated(_ version: VersionIndex, of known: VersionIndex) {
        guard isOfEndedAssignment(versions[known].record) else { return settle(version) }
        versions[known].record.takeOrigin(of: versions[version].record)
        freeVersion(version)
    }

    private mutating func settle(_ version: VersionIndex) {
        let slot = versions[version]
        if let partition = partitions.partition(slot.record.partition, assignmentEpoch: slot.record.assignmentEpoch) {
            partition.pointee.ledger.settle(slot.record.offset)
            partition.pointee.unsettledRecordCount -= 1
        }
        freeVersion(version)
    }

    /// Drops a version without settling it. Its record is read again.
    mutating func dropVersion(_ version: VersionIndex) {
        noteDropped(versions[version].record, ofApp: rounds[versions[version].round].appIndex)
        freeVersion(version)
    }

    private mutating func freeVersion(_ version: VersionIndex) {
        addRecordBytes(-versions[version].occupiedBytes, of: version)
        appQueues[Int(rounds[versions[version].round].appIndex)].recordCount -= 1
        versions[version].freeBytes()
        versions.free(version)
    }
}
