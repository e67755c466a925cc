import Delivery
import LiveActivity

/// The versions of a round: the position at which each version begins, and the alert that it carries.
extension Audiences {
    /// The maximum number of versions of a round that still have members to reach. If there are more, the oldest one is
    /// closed early, because a checkpoint has an entry for each version and must not exceed
    /// ``AudienceLimits/checkpointBytesMax``.
    static var versionsPerRoundMax: Int { 32 }

    /// Adds a version to its round, in one of four ways:
    /// - If the last owner of the partition had the version under way, it continues from that owner's
    ///   checkpoint.
    /// - If the version is settled, or its round has it already, its record settles without a result.
    /// - If the round has a newer version, the version ends at once as superseded.
    /// - Otherwise the version takes over at the round's present position.
    mutating func add(_ version: VersionIndex, to round: RoundIndex, now: Moment) {
        let recordVersion = versions[version].record.version
        if let entry = restoredEntry(of: recordVersion, in: round) {
            append(version, to: round)
            versions[version].startPosition = entry.startPosition
            versions[version].endPosition =
                entry.startPosition + (entry.positionCount ?? rounds[round].progress.positionsPerLap)
            versions[version].isSuperseded = entry.positionCount != nil
            versions[version].counts = entry.counts
            versions[version].times = entry.times
            carryAlert(to: version, of: round, now: now)
            // The round had stopped waiting for this record, and may have nothing else to send. Now it must send this
            // version.
            if rounds[round].phase == .running || rounds[round].phase == .closing {
                rounds[round].enterRunningOrRestoring()
            }
        } else if let known = knownVersion(recordVersion, in: round) {
            settleRepeated(version, of: known)
        } else if recordVersion <= rounds[round].versions.newestSettled {
            settleWithoutResult(version)
        } else if recordVersion < newestKnownVersion(of: round) {
            finishLateVersion(version, of: round)
        } else {
            takeOver(version, of: round, now: now)
        }
        guard recordVersion >= rounds[round].checkpoints.restored.newestVersion else { return }
        forgetRestoredCheckpoint(round)
        guard rounds[round].phase == .awaitingVersions else { return }
        rounds[round].enterRunningOrRestoring()
    }

    private func knownVersion(_ recordVersion: Version, in round: RoundIndex) -> VersionIndex? {
        var version = rounds[round].versions.oldest
        while version != .null {
            if versions[version].record.version == recordVersion { return version }
            version = versions[version].nextVersion
        }
        return nil
    }

    private func newestKnownVersion(of round: RoundIndex) -> Version {
        let newest = rounds[round].versions.newest
        return newest == .null
            ? rounds[round].checkpoints.restored.newestVersion
            : max(versions[newest].record.version, rounds[round].checkpoints.restored.newestVersion)
    }

    private mutating func append(_ version: VersionIndex, to round: RoundIndex) {
        updateUnreachedMembersSince(round, by: version)
        let last = rounds[round].versions.newest
        if last == .null { rounds[round].versions.oldest = version } else { versions[last].nextVersion = version }
        rounds[round].versions.newest = version
        if rounds[round].versions.newestAdmitted <= versions[version].record.version {
            rounds[round].versions.newestAdmittedMissingSinceMilliseconds = .max
        }
        versions[version].stage = .underWay
        rounds[round].checkpoints.revision += 1
    }

    /// Makes a newer version take over: it begins at the round's present position and passes all positions of
    /// the range once.
    private mutating func takeOver(_ version: VersionIndex, of round: RoundIndex, now: Moment) {
        let start = rounds[round].progress.turnPosition
        noteStalledSince(of: round, at: start, now: now)
        versions[version].startPosition = start
        versions[version].endPosition = start + rounds[round].progress.positionsPerLap
        append(version, to: round)
        if rounds[round].phase == .closing { rounds[round].enter(.running) }
        // Drop the pages that were read ahead. They may lack a member that joined after they were read and before this
        // version was admitted. Joining does not show this version to the member, so the round must. Pages that are
        // read now have the member's entry.
        if rounds[round].phase == .running { refreshPages(of: round) }
        carryAlert(to: version, of: round, now: now)
        closeUnsentVersions(of: round, start: start)
        limitOpenVersions(of: round)
        closeOlderVersionsIfPoolsUnavailable(of: round, now: now)
        supersedeParkedMembers(to: version, of: round, now: now)
    }

    /// Closes the versions that the newest one replaced before any member had its turn: those that begin at the same
    /// position as the newest one. A version whose alert the newest one carries stays open.
    private mutating func closeUnsentVersions(of round: RoundIndex, start: UInt64) {
        let newest = rounds[round].versions.newest
        var version = rounds[round].versions.oldest
        while version != newest {
            let slot = versions[version]
            if slot.stage == .underWay, slot.startPosition == start, !isAlertCarried(of: version, by: newest) {
                versions[version].endPosition = start
                versions[version].isSuperseded = true
            }
            version = slot.nextVersion
        }
    }

    /// Whether the newest version carries the alert of `version`. The callers then leave `version` open, so that its
    /// record stays unsettled. After a crash, the new owner takes the alert from this record again.
    func isAlertCarried(of version: VersionIndex, by newest: VersionIndex) -> Bool {
        versions[newest].carriesAlert && versions[version].record.hasAlert
            && versions[version].record.alertVersion == versions[newest].record.alertVersion
    }

    private mutating func limitOpenVersions(of round: RoundIndex) {
        var openCount = 0
        var oldest = VersionIndex.null
        var version = rounds[round].versions.oldest
        while version != .null {
            if versions[version].stage == .underWay, versions[version].endPosition > rounds[round].progress.sendPosition
            {
                if oldest == .null { oldest = version }
                openCount += 1
            }
            version = versions[version].nextVersion
        }
        if openCount > Self.versionsPerRoundMax { closeVersionEarly(oldest, of: round) }
    }

    /// Ends a version at the round's present position. Newer versions reach the members above this position.
    mutating func closeVersionEarly(_ version: VersionIndex, of round: RoundIndex) {
        let position = rounds[round].progress.turnPosition
        versions[version].endPosition = max(
            versions[version].startPosition,
            min(versions[version].endPosition, position)
        )
        versions[version].isSuperseded = true
        rounds[round].checkpoints.revision += 1
    }

    /// Makes a version without an alert carry the newest alert of the versions before it. So members that have not got
    /// this alert get it with the newer version. An alert that is too old or would make the body too large is not
    /// carried.
    ///
    /// The alert goes only to the members that the version which brought it would have reached.
    private mutating func carryAlert(to version: VersionIndex, of round: RoundIndex, now: Moment) {
        guard !versions[version].record.hasAlert, !rounds[round].isForStarts,
            let older = precedingVersion(version, of: round)
        else { return }
        let slot = versions[older]
        let (start, end): (UInt64, UInt64)
        let alert: UnsafeRawBufferPointer
        if slot.record.hasAlert {
            (start, end) = (slot.startPosition, slot.startPosition + rounds[round].progress.positionsPerLap)
            alert = slot.record.layout.alert.bytes(in: slot.record.body.bytes)
        } else if slot.carriesAlert {
            (start, end) = (slot.alertFirstPosition, slot.alertEndPosition)
            alert = alertCarried(by: older)
        } else {
            return
        }
        let newer = versions[version]
        guard end > lowestUnfinishedPosition(of: round), !isAlertTooOld(older, now: now),
            Body.byteCount(newer.record.body.bytes, newer.record.layout, carryingAlertBytes: alert.count)
                <= Limits.bodyBytesMax
        else { return }
        let (body, layout) = Self.bodyWithAlert(alert, on: newer.record.body.bytes, newer.record.layout)
        addRecordBytes(body.count, of: version)
        versions[version].alternateBody = body
        versions[version].carriedAlertRange = layout.alert
        (versions[version].alertFirstPosition, versions[version].alertEndPosition) = (start, end)
        versions[version].record.alertVersion = slot.record.alertVersion
        versions[version].record.alertSeconds = slot.record.alertSeconds
    }

    /// Returns the position below which every member has its outcome.
    private func lowestUnfinishedPosition(of round: RoundIndex) -> UInt64 {
        let slot = rounds[round]
        return min(
            slot.progress.watermark,
            slot.members.lowestParkedPosition,
            slot.checkpoints.restored.nextParkedPosition ?? .max
        )
    }

    private func alertCarried(by version: VersionIndex) -> UnsafeRawBufferPointer {
        versions[version].carriedAlertRange.bytes(in: versions[version].alternateBody.bytes)
    }

    func precedingVersion(_ version: VersionIndex, of round: RoundIndex) -> VersionIndex? {
        var predecessor = rounds[round].versions.oldest
        guard predecessor != version else { return nil }
        while versions[predecessor].nextVersion != version { predecessor = versions[predecessor].nextVersion }
        return predecessor
    }

    /// Whether the alert that a version has or carries is too old to be sent.
    func isAlertTooOld(_ version: VersionIndex, now: Moment) -> Bool {
        versions.address(of: version).pointee.record.isAlertTooOld(now: now)
    }

    /// Returns the version to send at a position: the newest one that took over at this position or below it.
    func version(at position: UInt64, of round: RoundIndex) -> VersionIndex {
        let newest = rounds[round].versions.newest
        guard position < versions[newest].startPosition else { return newest }
        var versionAtPosition = newest
        var version = rounds[round].versions.oldest
        while version != newest {
            if versions[version].stage == .underWay, versions[version].startPosition <= position {
                versionAtPosition = version
            }
            version = versions[version].nextVersion
        }
        return versionAtPosition
    }

    /// Returns the body of a version for the member at a position, with or without an alert.
    mutating func body(of version: VersionIndex, at position: UInt64, now: Moment) -> UnsafeRawBufferPointer {
        let slot = versions.mutableAddress(of: version)
        if slot.pointee.carriesAlert {
            let carriesAlert = slot.pointee.carriesAlert(to: position) && !isAlertTooOld(version, now: now)
            return carriesAlert ? slot.pointee.alternateBody.bytes : slot.pointee.record.body.bytes
        }
        guard slot.pointee.record.hasAlert, isAlertTooOld(version, now: now) else {
            return slot.pointee.record.body.bytes
        }
        if slot.pointee.alternateBody.isNone {
            slot.pointee.alternateBody =
                Self.bodyWithoutAlert(slot.pointee.record.body.bytes, slot.pointee.record.layout).0
            addRecordBytes(slot.pointee.alternateBody.count, of: version)
        }
        return slot.pointee.alternateBody.bytes
    }

    func isExpired(_ version: VersionIndex, now: Moment) -> Bool {
        expiresAtSeconds(of: versions.address(of: version).pointee.record) < now.wallSeconds
    }
}
