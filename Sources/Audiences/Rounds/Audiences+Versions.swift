import Delivery
import LiveActivity

/// Versions of a round: which takes over where, and whose alert is carried on.
extension Audiences {
    /// The most versions of a round that have open windows; beyond it the oldest closes early.
    static var versionsPerRoundMax: Int { 32 }

    /// A record takes its place in its round: it goes on where the last owner stood, takes over here, or is over already.
    mutating func take(_ version: UInt32, into round: UInt32, now: Moment) {
        let number = versions[version].version
        if let entry = restoredEntry(of: number, in: round) {
            append(version, to: round)
            versions[version].start = entry.start
            versions[version].end = entry.start + (entry.length ?? rounds[round].length)
            versions[version].isOvertaken = entry.length != nil
            versions[version].counts = entry.counts
            versions[version].times = entry.times
            carryAlert(to: version, of: round, now: now)
            // It came late: what came before has nothing left to send.
            if rounds[round].phase == .running || rounds[round].phase == .closing {
                rounds[round].phase = rounds[round].restored.nextParked == nil ? .running : .restoring
            }
        } else if number <= rounds[round].lastSettled || isKnown(number, in: round) {
            settleSilently(version)
        } else if number < newestKnown(of: round) {
            finishLate(version, of: round)
        } else {
            takeOver(version, of: round, now: now)
        }
        guard number >= rounds[round].restored.newest else { return }
        forgetRestored(round)
        guard rounds[round].phase == .awaitingVersions else { return }
        rounds[round].phase = rounds[round].restored.nextParked == nil ? .running : .restoring
    }

    private func isKnown(_ number: Version, in round: UInt32) -> Bool {
        var version = rounds[round].oldest
        while version != .max {
            if versions[version].version == number { return true }
            version = versions[version].next
        }
        return false
    }

    private func newestKnown(of round: UInt32) -> Version {
        let newest = rounds[round].newest
        return newest == .max
            ? rounds[round].restored.newest : max(versions[newest].version, rounds[round].restored.newest)
    }

    private mutating func append(_ version: UInt32, to round: UInt32) {
        noteBegun(round, by: version)
        let last = rounds[round].newest
        if last == .max { rounds[round].oldest = version } else { versions[last].next = version }
        rounds[round].newest = version
        rounds[round].versionCount += 1
        if rounds[round].newestAdmitted <= versions[version].version { rounds[round].behindSinceMilliseconds = .max }
        versions[version].stage = .underWay
        rounds[round].revision += 1
    }

    /// A newer version goes on from here for one lap.
    private mutating func takeOver(_ version: UInt32, of round: UInt32, now: Moment) {
        let start = max(rounds[round].sendPosition, rounds[round].watermark)
        noteStandstill(of: round, at: start, now: now)
        versions[version].start = start
        versions[version].end = start + rounds[round].length
        append(version, to: round)
        if rounds[round].phase == .closing { rounds[round].phase = .running }
        // Who joins is shown what was admitted before: what is admitted later finds its entry only in a page that is read later.
        if rounds[round].phase == .running { refreshPages(of: round) }
        carryAlert(to: version, of: round, now: now)
        closeUnsent(of: round, start: start)
        closeOldest(of: round)
        closeStranded(of: round, now: now)
        leaveParked(to: version, of: round, now: now)
    }

    /// Versions under which nothing was sent are over, but for one whose alert goes on.
    private mutating func closeUnsent(of round: UInt32, start: UInt64) {
        let newest = rounds[round].newest
        var version = rounds[round].oldest
        while version != newest {
            let slot = versions[version]
            if slot.stage == .underWay, slot.start == start, !isAlertCarried(of: version, by: newest) {
                versions[version].end = start
                versions[version].isOvertaken = true
            }
            version = slot.next
        }
    }

    /// Whether a newer version carries the alert of an older one, which is needed to carry it once more after a crash.
    func isAlertCarried(of version: UInt32, by newest: UInt32) -> Bool {
        versions[newest].carriesAlert && versions[version].hasAlert
            && versions[version].alertVersion == versions[newest].alertVersion
    }

    private mutating func closeOldest(of round: UInt32) {
        var open = 0
        var oldest = UInt32.max
        var version = rounds[round].oldest
        while version != .max {
            if versions[version].stage == .underWay, versions[version].end > rounds[round].sendPosition {
                if oldest == .max { oldest = version }
                open += 1
            }
            version = versions[version].next
        }
        if open > Self.versionsPerRoundMax { closeEarly(oldest, of: round) }
    }

    /// The members that were not reached yet are left to newer versions.
    mutating func closeEarly(_ version: UInt32, of round: UInt32) {
        let position = max(rounds[round].sendPosition, rounds[round].watermark)
        versions[version].end = max(versions[version].start, min(versions[version].end, position))
        versions[version].isOvertaken = true
        rounds[round].revision += 1
    }

    /// The newest alert rides on with a version that has none, for the members that have not heard it.
    private mutating func carryAlert(to version: UInt32, of round: UInt32, now: Moment) {
        guard !versions[version].hasAlert, !rounds[round].startsDevices, let older = versionBefore(version, of: round)
        else { return }
        let slot = versions[older]
        let (start, end): (UInt64, UInt64)
        let alert: UnsafeRawBufferPointer
        if slot.hasAlert {
            (start, end) = (slot.start, slot.start + rounds[round].length)
            alert = slot.layout.alert.bytes(in: slot.body.bytes)
        } else if slot.carriesAlert {
            (start, end) = (slot.alertStart, slot.alertEnd)
            // The body's parts lie as in the version's own up to the alert.
            alert = alertCarried(by: older)
        } else {
            return
        }
        let newer = versions[version]
        guard end > lowestOpen(of: round), !isAlertOld(older, now: now),
            Body.count(newer.body.bytes, newer.layout, carryingAlertOf: alert.count) <= Limits.bodyBytes
        else { return }
        let (body, layout) = Self.carrying(alert, on: newer.body.bytes, newer.layout)
        countBytes(body.count, of: version)
        versions[version].otherBody = body
        versions[version].otherAlert = layout.alert
        (versions[version].alertStart, versions[version].alertEnd) = (start, end)
        versions[version].alertVersion = slot.alertVersion
        versions[version].alertSeconds = slot.alertSeconds
    }

    /// Below it every member has its outcome.
    private func lowestOpen(of round: UInt32) -> UInt64 {
        let slot = rounds[round]
        return min(slot.watermark, slot.lowestParked, slot.restored.nextParked ?? .max)
    }

    private func alertCarried(by version: UInt32) -> UnsafeRawBufferPointer {
        versions[version].otherAlert.bytes(in: versions[version].otherBody.bytes)
    }

    func versionBefore(_ version: UInt32, of round: UInt32) -> UInt32? {
        var before = rounds[round].oldest
        guard before != version else { return nil }
        while versions[before].next != version { before = versions[before].next }
        return before
    }

    /// Whether the alert that a version has or carries is too old to be sent.
    func isAlertOld(_ version: UInt32, now: Moment) -> Bool {
        AgeRules.isAlertOld(
            timestamp: versions[version].alertVersion.timestamp,
            alertSeconds: versions[version].alertSeconds,
            now: now.wallSeconds
        )
    }

    /// The version that is sent at a position: the newest that has taken over up to there.
    func version(at position: UInt64, of round: UInt32) -> UInt32 {
        let newest = rounds[round].newest
        guard position < versions[newest].start else { return newest }
        var found = newest
        var version = rounds[round].oldest
        while version != newest {
            if versions[version].stage == .underWay, versions[version].start <= position { found = version }
            version = versions[version].next
        }
        return found
    }

    /// What a member at a position is sent under a version.
    mutating func body(of version: UInt32, at position: UInt64, now: Moment) -> UnsafeRawBufferPointer {
        let slot = versions.mutableAddress(of: version)
        if slot.pointee.carriesAlert {
            let rides = slot.pointee.carriesAlert(to: position) && !isAlertOld(version, now: now)
            return rides ? slot.pointee.otherBody.bytes : slot.pointee.body.bytes
        }
        guard slot.pointee.hasAlert, isAlertOld(version, now: now) else { return slot.pointee.body.bytes }
        if slot.pointee.otherBody.isNone {
            slot.pointee.otherBody = Self.withoutAlert(slot.pointee.body.bytes, slot.pointee.layout).0
            countBytes(slot.pointee.otherBody.count, of: version)
        }
        return slot.pointee.otherBody.bytes
    }

    func isExpired(_ version: UInt32, now: Moment) -> Bool { expirySeconds(of: version) < now.wallSeconds }

    /// After this time nothing of a version is sent, UNIX seconds: as a single push that waits for the service, it is good for as long as
    /// APNs would have kept it from its admission on.
    func expirySeconds(of version: UInt32) -> Int64 {
        let slot = versions.address(of: version)
        return sentExpiration(
            event: slot.pointee.event,
            expiration: slot.pointee.expiration,
            staleDate: slot.pointee.staleDate,
            policy: slot.pointee.policy,
            from: max(0, slot.pointee.order.admittedMilliseconds / 1_000)
        )
    }
}
