import Delivery
import LiveActivity

/// The versions of a round (``RangeVersionSlot``): the position at which each version begins, and the alert that it
/// carries. ``RoundProgress`` explains positions, laps and windows.
///
/// The window of a version begins at the position that the round has reached when the version comes. It is one lap
/// long, or shorter if the version is closed. An example for a range of 100 places: version 1 begins at position 0, and
/// version 2 at position 40. Version 1 has the window 0 to 99, version 2 the window 40 to 139. The members at 40 to 99
/// are in both windows. They get version 2, and count as `superseded` for version 1.
extension Audiences {
    /// The maximum number of versions of a round that still have members to reach. A further version closes the oldest
    /// one, because a checkpoint has an entry for each version and must not exceed
    /// ``AudienceLimits/checkpointBytesMax``.
    static var versionsPerRoundMax: Int { 32 }

    /// Begins a received version, or ends it at once:
    /// - If the previous owner of the partition had the version under way, the version continues from that owner's
    ///   checkpoint.
    /// - If the version is settled, or the round has it already, its record settles without a result.
    /// - If the round knows a newer version, this version is late, and is finished at once as superseded.
    /// - Otherwise the version takes over at the round's current position.
    ///
    /// When the newest version of that checkpoint, or a newer version, has come, the round no longer waits for the
    /// checkpoint's versions (`awaitingVersions`).
    mutating func beginOrEndReceivedVersion(_ rangeVersion: RangeVersionIndex, of round: RoundIndex, now: Moment) {
        let recordVersion = rangeVersions[rangeVersion].record.version
        if let entry = restoredEntry(of: recordVersion, in: round) {
            beginVersion(rangeVersion, of: round)
            rangeVersions[rangeVersion].startPosition = entry.startPosition
            rangeVersions[rangeVersion].endPosition =
                entry.startPosition + (entry.positionCount ?? rounds[round].progress.positionsPerLap)
            rangeVersions[rangeVersion].isSuperseded = entry.positionCount != nil
            rangeVersions[rangeVersion].counts = entry.counts
            rangeVersions[rangeVersion].times = entry.times
            carryAlert(to: rangeVersion, of: round, now: now)
        } else if let original = findRangeVersion(recordVersion, in: round) {
            settleDuplicate(rangeVersion, of: original)
        } else if recordVersion <= rounds[round].versions.newestSettled {
            settle(rangeVersion)
        } else if recordVersion < newestKnownVersion(of: round) {
            finishLateVersion(rangeVersion, of: round)
        } else {
            takeOver(rangeVersion, of: round, now: now)
        }
        guard recordVersion >= rounds[round].checkpoints.restored.newestVersion else { return }
        forgetRestoredCheckpoint(round)
        if rounds[round].phase == .awaitingVersions { rounds[round].endWaitForVersions() }
    }

    /// Returns the version in the round's list whose record has this version number; nil if there is none.
    private func findRangeVersion(_ recordVersion: Version, in round: RoundIndex) -> RangeVersionIndex? {
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if rangeVersions[rangeVersion].record.version == recordVersion { return rangeVersion }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return nil
    }

    /// Returns the newest version that the round has or that the partition's previous owner had under way. Call this
    /// only while the round's list has no version in the phase `received`.
    private func newestKnownVersion(of round: RoundIndex) -> Version {
        let newest = rounds[round].versions.last
        return newest == .null
            ? rounds[round].checkpoints.restored.newestVersion
            : max(rangeVersions[newest].record.version, rounds[round].checkpoints.restored.newestVersion)
    }

    /// Returns the newest version in the round's list, begun or received; nil if the list is empty.
    func newestListedVersion(of round: RoundIndex) -> Version? {
        var newestVersion: Version?
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            newestVersion = max(newestVersion ?? .zero, rangeVersions[rangeVersion].record.version)
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return newestVersion
    }

    /// Returns two versions of the round's list: the last one that has begun, which is the newest of the begun ones,
    /// and the first one in the phase `received`. Each is nil if there is none.
    func lastBegunAndFirstReceived(of round: RoundIndex) -> (begun: RangeVersionIndex?, received: RangeVersionIndex?) {
        var lastBegun: RangeVersionIndex?
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null, rangeVersions[rangeVersion].phase != .received {
            (lastBegun, rangeVersion) = (rangeVersion, rangeVersions[rangeVersion].nextInList)
        }
        return (lastBegun, rangeVersion == .null ? nil : rangeVersion)
    }

    /// Adds a version to the round's list as the newest one under way. The caller sets the version's window. A round in
    /// the phase `ending` runs again.
    private mutating func beginVersion(_ rangeVersion: RangeVersionIndex, of round: RoundIndex) {
        noteMembersWaiting(of: round, since: rangeVersion)
        rounds[round].versions.list.append(rangeVersion, in: &rangeVersions)
        if rounds[round].versions.newestAdmitted <= rangeVersions[rangeVersion].record.version {
            rounds[round].versions.newestAdmittedMissingSinceMilliseconds = nil
        }
        rangeVersions[rangeVersion].enter(.underWay)
        rounds[round].checkpoints.revision += 1
        if rounds[round].phase == .ending { rounds[round].enter(.running) }
    }

    /// Makes a newer version take over: its window begins at the round's current position, and is one lap long.
    private mutating func takeOver(_ rangeVersion: RangeVersionIndex, of round: RoundIndex, now: Moment) {
        let startPosition = rounds[round].progress.currentPosition
        noteTakeover(of: round, at: startPosition, now: now)
        rangeVersions[rangeVersion].startPosition = startPosition
        rangeVersions[rangeVersion].endPosition = startPosition + rounds[round].progress.positionsPerLap
        beginVersion(rangeVersion, of: round)
        // The pages that were read ahead may lack members that joined before this version was admitted.
        if rounds[round].phase == .running { discardUnsentMembers(of: round) }
        carryAlert(to: rangeVersion, of: round, now: now)
        closeOlderVersions(of: round, beginningAt: startPosition)
        closeOldestVersionIfTooMany(of: round)
        closeOlderVersionsIfPoolsUnavailable(of: round, now: now)
        supersedeParkedMembers(by: rangeVersion, of: round, now: now)
    }

    /// Closes the older versions that begin at `startPosition`, where the newest version begins too. No member has had
    /// its turn since the older versions began, so they get empty windows, and their records can settle. One older
    /// version may stay open: the one whose alert the newest version carries.
    private mutating func closeOlderVersions(of round: RoundIndex, beginningAt startPosition: UInt64) {
        let newest = rounds[round].versions.last
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != newest {
            let slot = rangeVersions[rangeVersion]
            if slot.phase == .underWay, slot.startPosition == startPosition,
                !isAlertCarried(of: rangeVersion, by: newest)
            {
                rangeVersions[rangeVersion].endPosition = startPosition
                rangeVersions[rangeVersion].isSuperseded = true
            }
            rangeVersion = slot.nextInList
        }
    }

    /// Whether the newest version carries the alert of `rangeVersion`. If so, the callers leave `rangeVersion` open, so
    /// that its record stays unsettled: after a crash, the new owner needs the alert in this record.
    func isAlertCarried(of rangeVersion: RangeVersionIndex, by newest: RangeVersionIndex) -> Bool {
        rangeVersions[newest].isCarryingAlert && rangeVersions[rangeVersion].record.hasAlert
            && rangeVersions[rangeVersion].record.alertVersion == rangeVersions[newest].record.alertVersion
    }

    /// Closes the oldest version that still has members to reach, if there are more than ``versionsPerRoundMax`` such
    /// versions.
    private mutating func closeOldestVersionIfTooMany(of round: RoundIndex) {
        var openVersionCount = 0
        var oldest = RangeVersionIndex.null
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != .null {
            if rangeVersions[rangeVersion].phase == .underWay,
                rangeVersions[rangeVersion].endPosition > rounds[round].progress.sendPosition
            {
                if oldest == .null { oldest = rangeVersion }
                openVersionCount += 1
            }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        if openVersionCount > Self.versionsPerRoundMax { closeVersion(oldest, of: round) }
    }

    /// Closes a version: it ends at the round's current position. Newer versions reach the members above this position.
    mutating func closeVersion(_ rangeVersion: RangeVersionIndex, of round: RoundIndex) {
        let position = rounds[round].progress.currentPosition
        rangeVersions[rangeVersion].endPosition = max(
            rangeVersions[rangeVersion].startPosition,
            min(rangeVersions[rangeVersion].endPosition, position)
        )
        rangeVersions[rangeVersion].isSuperseded = true
        rounds[round].checkpoints.revision += 1
    }

    /// Makes a version without an alert carry the alert that the previous version has or carries, for the members that
    /// have not got the alert yet. Does nothing for starts, or if the alert is too old, does not fit into the body, or
    /// has reached all its members.
    ///
    /// The alert is carried only to positions within one lap after the start of the version that brought it first. So
    /// no member gets it twice.
    private mutating func carryAlert(to rangeVersion: RangeVersionIndex, of round: RoundIndex, now: Moment) {
        guard !rangeVersions[rangeVersion].record.hasAlert, !rounds[round].isForStarts,
            let older = precedingRangeVersion(rangeVersion, of: round)
        else { return }
        let olderSlot = rangeVersions[older]
        let startPosition: UInt64
        let endPosition: UInt64
        let alert: UnsafeRawBufferPointer
        if olderSlot.record.hasAlert {
            startPosition = olderSlot.startPosition
            endPosition = olderSlot.startPosition + rounds[round].progress.positionsPerLap
            alert = olderSlot.record.bodyLayout.alert.bytes(in: olderSlot.record.body.bytes)
        } else if olderSlot.isCarryingAlert {
            startPosition = olderSlot.carriedAlertStartPosition
            endPosition = olderSlot.carriedAlertEndPosition
            alert = carriedAlert(by: older)
        } else {
            return
        }
        let newerRecord = rangeVersions[rangeVersion].record
        guard endPosition > lowestUnfinishedPosition(of: round), !isAlertTooOld(older, now: now),
            PushBody.byteCount(newerRecord.body.bytes, newerRecord.bodyLayout, carryingAlertBytes: alert.count)
                <= Limits.bodyBytesMax
        else { return }
        let (body, layout) = Self.bodyWithAlert(alert, on: newerRecord.body.bytes, newerRecord.bodyLayout)
        addFanoutRecordBytes(body.count, of: rangeVersion)
        rangeVersions[rangeVersion].alternativeBody = body
        rangeVersions[rangeVersion].carriedAlertByteRange = layout.alert
        rangeVersions[rangeVersion].carriedAlertStartPosition = startPosition
        rangeVersions[rangeVersion].carriedAlertEndPosition = endPosition
        rangeVersions[rangeVersion].record.alertVersion = olderSlot.record.alertVersion
        rangeVersions[rangeVersion].record.alertAgeSecondsMax = olderSlot.record.alertAgeSecondsMax
    }

    /// Returns the position below which every member has its outcome.
    private func lowestUnfinishedPosition(of round: RoundIndex) -> UInt64 {
        let slot = rounds[round]
        return min(
            slot.progress.completedPosition,
            slot.members.lowestParkedPosition,
            slot.checkpoints.restored.nextParkedPosition ?? .max
        )
    }

    private func carriedAlert(by rangeVersion: RangeVersionIndex) -> UnsafeRawBufferPointer {
        rangeVersions[rangeVersion].carriedAlertByteRange
            .bytes(in: rangeVersions[rangeVersion].alternativeBody.bytes)
    }

    /// Returns the version before this one in the round's list, which is the next older one; nil if there is none.
    func precedingRangeVersion(_ rangeVersion: RangeVersionIndex, of round: RoundIndex) -> RangeVersionIndex? {
        rounds[round].versions.list.predecessor(of: rangeVersion, in: rangeVersions)
    }

    /// Whether the alert that a version has or carries is too old to be sent.
    func isAlertTooOld(_ rangeVersion: RangeVersionIndex, now: Moment) -> Bool {
        rangeVersions.address(of: rangeVersion).pointee.record.isAlertTooOld(now: now)
    }

    /// Returns the version to send to the member at a position: the newest one that begins at this position or below
    /// it.
    func rangeVersion(at position: UInt64, of round: RoundIndex) -> RangeVersionIndex {
        let newest = rounds[round].versions.last
        guard position < rangeVersions[newest].startPosition else { return newest }
        var versionAtPosition = newest
        var rangeVersion = rounds[round].versions.first
        while rangeVersion != newest {
            if rangeVersions[rangeVersion].phase == .underWay, rangeVersions[rangeVersion].startPosition <= position {
                versionAtPosition = rangeVersion
            }
            rangeVersion = rangeVersions[rangeVersion].nextInList
        }
        return versionAtPosition
    }

    /// Returns the body of a version for the member at a position. The body has the version's own alert, or the alert
    /// that the version carries to this position. If the alert is too old, the body has none: such a body is made when
    /// the first member needs it, and the version keeps it.
    mutating func makeBody(of rangeVersion: RangeVersionIndex, at position: UInt64, now: Moment)
        -> UnsafeRawBufferPointer
    {
        let slot = rangeVersions.mutableAddress(of: rangeVersion)
        if slot.pointee.isCarryingAlert {
            let sendsCarriedAlert =
                slot.pointee.bringsCarriedAlert(to: position) && !isAlertTooOld(rangeVersion, now: now)
            return sendsCarriedAlert ? slot.pointee.alternativeBody.bytes : slot.pointee.record.body.bytes
        }
        guard slot.pointee.record.hasAlert, isAlertTooOld(rangeVersion, now: now) else {
            return slot.pointee.record.body.bytes
        }
        if slot.pointee.alternativeBody.isNone {
            slot.pointee.alternativeBody =
                Self.bodyWithoutAlert(slot.pointee.record.body.bytes, slot.pointee.record.bodyLayout).0
            addFanoutRecordBytes(slot.pointee.alternativeBody.count, of: rangeVersion)
        }
        return slot.pointee.alternativeBody.bytes
    }

    /// Whether the version has expired, so that the core sends it to no further member.
    func isExpired(_ rangeVersion: RangeVersionIndex, now: Moment) -> Bool {
        expiresAtSeconds(of: rangeVersions.address(of: rangeVersion).pointee.record) < now.wallSeconds
    }
}
