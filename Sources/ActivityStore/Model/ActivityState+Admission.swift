import LiveActivity

/// Admissions: what becomes of an update, an end or a start. A comment `decision: NAME` is also in each place of the
/// scripts that makes this decision: `git grep 'decision: NAME'` finds all places.
extension ActivityState {
    mutating func admit(_ call: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange)
    {
        if let departures {
            var reply = StoreReply<[UInt8]>(.departures)
            reply.departures = departures
            return (reply, .unchanged)
        }
        var expiryChange = ExpiryChange.unchanged
        let lacksToken = token == nil
        if let registration = call.registration, token?.isSameToken(as: registration) != true,
            retiredToken?.isSameToken(as: registration) != true, storeTokenIfNewer(registration)
        {
            expiryChange = .renewed
            if call.isReread, lacksToken { lastAssignedTimestamp = max(lastAssignedTimestamp, nowMilliseconds / 1_000) }
            beginLife(at: nowMilliseconds)
        }
        if let verdict = findRefusal(call) { return (makeRefusalReply(call, verdict), expiryChange) }
        if call.isTooOld, version == nil { return (StoreReply(.expired), expiryChange) }
        if !call.isEnd, pace?.hasUpdatePeriodEnded(at: nowMilliseconds) ?? false {  // decision: eight hours
            return (StoreReply(.activityOver), expiryChange)
        }

        let isSameCommand = version == call.version && isEnded == call.isEnd
        if let alert = call.carriedAlertVersion, let acceptedAlertVersion, alert <= acceptedAlertVersion {
            return (StoreReply<[UInt8]>(.alertAlreadyAccepted), expiryChange)
        }
        let isHeldCommand = isSameCommand && holdsNewestVersion
        if let heldCommand, heldCommand.carriesAlert, !call.mayReplaceHeldAlert, token != nil || !isHeldCommand {
            var reply = StoreReply<[UInt8]>(.alertHeld)
            reply.heldCommand = heldCommand.command
            return (reply, expiryChange)
        }
        beginLife(at: nowMilliseconds)
        // Also in the scripts (decision: unchanged).
        if !call.isEnd, audiences.currentDigests.isEmpty, shownDigest == Self.storedDigest(call.digest) {
            heldCommand = nil
            setNewestVersion(to: call, .settled)
            return (StoreReply(.unchanged), .renewed)
        }
        guard let token else {  // decision: no token
            if isSameCommand && !holdsNewestVersion { return (StoreReply(.noToken), expiryChange) }
            setNewestVersion(to: call, isSameCommand ? .held : .waiting)
            return (StoreReply<[UInt8]>(isSameCommand ? .held : .noToken), .renewed)
        }
        let sinceLastSendMilliseconds = nowMilliseconds - lastSendMilliseconds  // decision: spacing
        let waitMilliseconds =
            (pace?.spacingMilliseconds(call.pace, at: nowMilliseconds) ?? 0) - sinceLastSendMilliseconds
        if sinceLastSendMilliseconds >= 0 && waitMilliseconds > 0 {
            if !isSameCommand {
                setNewestVersion(to: call, .waiting)
                expiryChange = .renewed
            }
            var reply = StoreReply<[UInt8]>(.wait)
            reply.waitMilliseconds = waitMilliseconds
            return (reply, expiryChange)
        }
        if !isSameCommand || versionPhase != .sending { assignTimestamp(call.version) }
        let previousHeldCommand = heldCommand
        setNewestVersion(to: call, .sending)
        if heldCommand != previousHeldCommand { expiryChange = .renewed }
        // Also in the scripts (decision: expiry).
        if lastSendMilliseconds / 1_000_000 != nowMilliseconds / 1_000_000 { expiryChange = .renewed }
        lastSendMilliseconds = nowMilliseconds
        shownDigest = nil
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = lastAssignedTimestamp
        reply.registration = token
        draw(call, nowMilliseconds: nowMilliseconds, into: &reply)
        return (reply, expiryChange)
    }

    /// Returns why an update or an end is refused (R11). Nil if it may become the newest version, and nil if it is
    /// already the newest version and is not settled yet.
    private func findRefusal(_ call: StateAdmission<[UInt8]>) -> StoreVerdict? {
        // Also in the scripts (decision: order of versions).
        guard let newest = version else { return nil }
        if isEnded {
            if call.isEnd {
                if newest == call.version { return versionPhase.isSettled ? .duplicate : nil }
                return versionPhase == .notShown && newest < call.version ? nil : .ended
            }
            return awaitsCarrier(call, newest: newest) ? .alertAwaitsCarrier : .ended
        }
        if call.isEnd {
            let isOfEarlierLife = start.map { call.version < $0.version } ?? false
            return isOfEarlierLife && !call.endsNewerLife ? .superseded : nil
        }
        if newest == call.version { return versionPhase.isSettled || versionPhase == .startSending ? .duplicate : nil }
        if newest < call.version { return nil }
        return awaitsCarrier(call, newest: newest) ? .alertAwaitsCarrier : .superseded
    }

    /// Returns the reply that refuses an update or an end with this verdict.
    private func makeRefusalReply(_ call: StateAdmission<[UInt8]>, _ verdict: StoreVerdict) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(verdict)
        reply.isUnshownDuplicate = verdict == .duplicate && call.isEnd && versionPhase == .notShown
        return reply
    }

    /// Whether the newest version can carry the command's alert: the command has an alert and is older, and the newest
    /// version is not settled yet. A start cannot carry the alert, because the alert belongs to the activity's previous
    /// life.
    private func awaitsCarrier(_ call: StateAdmission<[UInt8]>, newest: Version) -> Bool {
        call.mayReplaceHeldAlert && call.version < newest && !versionPhase.isSettled && versionPhase != .startSending
    }

    private mutating func draw(
        _ call: StateAdmission<[UInt8]>,
        nowMilliseconds: Int64,
        into reply: inout StoreReply<[UInt8]>
    ) {
        // Also in the scripts (decision: budget).
        guard let pace else { return }
        let bucket = pace.bucket(call.pace)
        var remainingPushCount = bucket.pushesLeft(
            fullAtMilliseconds: pace.budgetFullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        reply.priority = 5
        if call.requestsHighPriority {
            if hasDrawnOnBudget {
                reply.priority = 10
            } else if remainingPushCount > (call.mayUseReserve ? 0 : bucket.reservedForAlerts) {
                reply.priority = 10
                remainingPushCount -= 1
                hasDrawnOnBudget = true
                self.pace?.budgetFullAtMilliseconds = bucket.fullAfterDrawAtMilliseconds(
                    fullAtMilliseconds: pace.budgetFullAtMilliseconds,
                    nowMilliseconds: nowMilliseconds
                )
            } else {
                reply.isDemoted = true
            }
        }
        reply.budgetLeft = remainingPushCount
    }

    mutating func admitStart(
        _ version: Version,
        claim: UInt64,
        previousClaim: UInt64?,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        let isRecordedAgain = start.map { $0.version == version && $0.isRecordedAgain } ?? false
        if let start, !isRecordedAgain {
            if start.version == version { return admitRepeatedStart(start, claim: claim, previousClaim: previousClaim) }
            if start.version > version { return (StoreReply(.superseded), .unchanged) }
        }
        let isRecordedAsNewest = isRecordedAgain && self.version == version && !isEnded
        if let newest = self.version, newest >= version, !isRecordedAsNewest {
            if newest == version && versionPhase.isSettled && !isEnded { return (StoreReply(.duplicate), .unchanged) }
            let isAfterLastTimestamp =
                isRecordedAgain ? version.timestamp >= lastAssignedTimestamp : version.timestamp > lastAssignedTimestamp
            if isEnded || token != nil || !isAfterLastTimestamp {
                return (StoreReply(.superseded), .unchanged)
            }
        } else {
            heldCommand = nil
            token = nil
            acceptedAlertVersion = nil
            versionPhase = .startSending
            self.version = version
            isEnded = false
        }
        assignTimestamp(version)
        lastSendMilliseconds = nowMilliseconds
        shownDigest = nil
        hasDrawnOnBudget = false
        pace = ActivityPace(beganAtMilliseconds: nowMilliseconds)
        let start = Start(version: version, isSettled: false, timestamp: lastAssignedTimestamp, claim: claim)
        self.start = start
        return (makeSendReply(start), .renewed)
    }

    mutating func recordStart(_ version: Version, nowMilliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange) {
        if let start, start.version >= version { return (StoreReply(.settled), .unchanged) }
        let isNewest = self.version.map { $0 < version } ?? true
        if isNewest, heldCommand != nil { return (StoreReply(.settled), .unchanged) }
        beginLife(at: nowMilliseconds)
        if isNewest {
            shownDigest = nil
            hasDrawnOnBudget = false
            versionPhase = .settled
            self.version = version
            isEnded = false
            lastAssignedTimestamp = max(lastAssignedTimestamp, version.timestamp)
        }
        start = Start(
            version: version,
            isSettled: false,
            isRecordedAgain: true,
            timestamp: lastAssignedTimestamp,
            claim: 0
        )
        return (StoreReply(.settled), .renewed)
    }

    /// Decides about a record of a start that has already got a send verdict. There are three cases:
    /// - The record has the stored claim: it got the verdict, and asks again because the reply was lost. It may be
    ///   sent.
    /// - The record names the stored claim as its previous claim: it got the verdict, and was deferred. It may be sent.
    /// - Any other record of the start may not be sent.
    private mutating func admitRepeatedStart(
        _ start: Start,
        claim: UInt64,
        previousClaim: UInt64?
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        guard let storedClaim = start.claim, storedClaim == claim || storedClaim == previousClaim else {
            return (StoreReply<[UInt8]>(start.isSettled ? .duplicate : .unknown), .unchanged)
        }
        if isEnded || token != nil && versionPhase != .startSending { return (StoreReply(.superseded), .unchanged) }
        guard storedClaim != claim else { return (makeSendReply(start), .unchanged) }
        self.start?.claim = claim
        return (makeSendReply(start), .renewed)
    }

    private func makeSendReply(_ start: Start) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = start.timestamp
        return reply
    }

    /// Makes the command the newest version. Drops a held older command that has no alert.
    private mutating func setNewestVersion(to call: StateAdmission<[UInt8]>, _ versionPhase: VersionPhase) {
        if version != call.version || isEnded != call.isEnd {
            if let heldCommand, !heldCommand.carriesAlert { self.heldCommand = nil }
            hasDrawnOnBudget = false
        }
        version = call.version
        isEnded = call.isEnd
        self.versionPhase = versionPhase
    }

    /// Assigns the version's own timestamp. If that is not above the last assigned one: one second above the last.
    private mutating func assignTimestamp(_ version: Version) {
        // Also in the scripts (decision: timestamp).
        let nextTimestamp = min(lastAssignedTimestamp + 1, Limits.timestampMax)
        lastAssignedTimestamp =
            version.timestamp > lastAssignedTimestamp ? version.timestamp : nextTimestamp
    }
}
