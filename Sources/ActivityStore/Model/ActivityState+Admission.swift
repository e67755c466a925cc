import LiveActivity

/// Admissions: what becomes of an update, an end or a start. The scripts make the same decisions. If they make one at
/// two places, a comment `decision: NAME` marks it there and in the model. Find all with `git grep 'decision: NAME'`.
extension ActivityState {
    /// Decides about an update or an end, in the order of the headings in `admit-updates.lua`.
    mutating func admit(_ call: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange)
    {
        if let encodedDepartures {
            var reply = StoreReply<[UInt8]>(.departures)
            reply.departures = encodedDepartures
            return (reply, .unchanged)
        }
        let expiryChange: ExpiryChange = adoptToken(of: call, nowMilliseconds: nowMilliseconds) ? .renewed : .unchanged
        if let verdict = findRefusal(call) { return (makeRefusalReply(call, verdict), expiryChange) }
        let isRepeated = newestVersion == call.version && newestIsEnd == call.isEnd
        if let reply = findObstacle(to: call, isRepeated: isRepeated, nowMilliseconds: nowMilliseconds) {
            return (reply, expiryChange)
        }
        if settleIfShown(call) { return (StoreReply(.unchanged), .renewed) }
        // The scripts decide the same: search for `decision: no token`.
        guard let token else {
            if isRepeated && !newestIsHeld { return (StoreReply(.noToken), expiryChange) }
            setNewestVersion(to: call, isRepeated ? .held : .waiting)
            return (StoreReply<[UInt8]>(isRepeated ? .held : .noToken), .renewed)
        }
        if let waitMilliseconds = findWaitMilliseconds(call.pace, nowMilliseconds: nowMilliseconds) {
            var reply = StoreReply<[UInt8]>(.wait)
            reply.waitMilliseconds = waitMilliseconds
            if isRepeated { return (reply, expiryChange) }
            setNewestVersion(to: call, .waiting)
            return (reply, .renewed)
        }
        let sendingRenewsExpiry = beginSending(call, isRepeated: isRepeated, nowMilliseconds: nowMilliseconds)
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = lastAssignedTimestamp
        reply.registration = token
        draw(call, nowMilliseconds: nowMilliseconds, into: &reply)
        return (reply, sendingRenewsExpiry ? .renewed : expiryChange)
    }

    // MARK: - The token

    /// Stores the token that came with the command, and returns true. Returns false, and stores nothing, in four cases:
    /// - The command has no token.
    /// - The activity already has this token.
    /// - The command's token is the one that was retired last.
    /// - A later registration or unregistration is stored.
    ///
    /// If Redis lost data and lacks the token of a command that is read again, it has probably also lost the last
    /// assigned timestamp. This then becomes the present second, so that the next push gets a higher one. Known issue
    /// (K30): if Redis still has a token, it may have lost only this timestamp, which then stays too low.
    private mutating func adoptToken(of call: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> Bool {
        let lacksToken = token == nil
        guard let registration = call.registration, token?.isSameToken(as: registration) != true,
            retiredToken?.isSameToken(as: registration) != true,
            storeTokenUnlessOlder(
                registration,
                nowMilliseconds: nowMilliseconds,
                writtenAtMilliseconds: call.isReread ? registration.registeredAtMilliseconds : nil
            )
        else { return false }
        if call.isReread, lacksToken { lastAssignedTimestamp = max(lastAssignedTimestamp, nowMilliseconds / 1_000) }
        return true
    }

    // MARK: - The order of versions

    /// Returns the verdict with which the order of versions refuses an update or an end (R11, R13). Nil if the command
    /// may become the newest version, or repeats it and the version is not settled. (A start that is being sent counts
    /// as settled.)
    private func findRefusal(_ call: StateAdmission<[UInt8]>) -> StoreVerdict? {
        // The scripts decide the same: search for `decision: order of versions`.
        guard let newest = newestVersion else { return nil }
        if newestIsEnd {
            if call.isEnd {
                if newest == call.version { return versionPhase.isSettled ? .duplicate : nil }
                let maySupersede = versionPhase == .notShown || versionPhase != .settled && !call.isLifetimeEnd
                return maySupersede && newest < call.version ? nil : .ended
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

    private func makeRefusalReply(_ call: StateAdmission<[UInt8]>, _ verdict: StoreVerdict) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(verdict)
        reply.isUnshownDuplicate = verdict == .duplicate && call.isEnd && versionPhase == .notShown
        return reply
    }

    /// Whether a refused command gets the verdict `alertAwaitsCarrier`, because the newest version may carry its alert:
    /// the command has an alert or got the held one, and is older than the newest version, which is not settled. The
    /// newest version must not be a start either: the alert belongs to the life before the start.
    private func awaitsCarrier(_ call: StateAdmission<[UInt8]>, newest: Version) -> Bool {
        call.mayReplaceHeldAlert && call.version < newest && !versionPhase.isSettled && versionPhase != .startSending
    }

    // MARK: - Whether the state may be sent now

    /// Returns the reply if the command must neither be sent nor become the newest version now; otherwise nil. There
    /// are three reasons:
    /// - The command is too old, and no version of the activity is known.
    /// - The command is an update, and the activity's first eight hours are over.
    /// - The worker must first add the held alert to the command, or remove an alert that is not newer than the last
    ///   accepted one, and then ask again.
    private func findObstacle(
        to call: StateAdmission<[UInt8]>,
        isRepeated: Bool,
        nowMilliseconds: Int64
    ) -> StoreReply<[UInt8]>? {
        if call.isTooOld, newestVersion == nil { return StoreReply<[UInt8]>(.expired) }
        // The scripts decide the same: search for `decision: eight hours`.
        if !call.isEnd, hasLifeBegun, pace?.hasUpdatePeriodEnded(at: nowMilliseconds) ?? false {
            return StoreReply<[UInt8]>(.activityOver)
        }
        if let alert = call.carriedAlertVersion, let acceptedAlertVersion, alert <= acceptedAlertVersion {
            return StoreReply<[UInt8]>(.alertAlreadyAccepted)
        }
        let isHeldCommand = isRepeated && newestIsHeld
        guard let heldCommand, heldCommand.hasAlert, !call.mayReplaceHeldAlert, token != nil || !isHeldCommand
        else { return nil }
        var reply = StoreReply<[UInt8]>(.alertHeld)
        reply.heldCommand = heldCommand.command
        reply.registeredAtMilliseconds = registeredAtMilliseconds ?? 0
        return reply
    }

    /// If the activity already shows the update's state, makes the update the newest version, settles it without a
    /// push, and returns true. Otherwise returns false. The shown state of an activity in an audience is not known.
    private mutating func settleIfShown(_ call: StateAdmission<[UInt8]>) -> Bool {
        // The scripts decide the same: search for `decision: unchanged`.
        guard !call.isEnd, audiences.currentDigests.isEmpty, shownDigest == Self.storedDigest(call.digest) else {
            return false
        }
        heldCommand = nil
        setNewestVersion(to: call, .settled)
        return true
    }

    /// Returns for how many milliseconds the spacing still forbids a push; nil if the spacing is over.
    private func findWaitMilliseconds(_ policyPace: Policy.Pace, nowMilliseconds: Int64) -> Int64? {
        // The scripts decide the same: search for `decision: spacing`.
        let sinceLastSendMilliseconds = nowMilliseconds - lastSendAtMilliseconds
        let waitMilliseconds =
            (pace?.spacingMilliseconds(policyPace, at: nowMilliseconds) ?? 0) - sinceLastSendMilliseconds
        return sinceLastSendMilliseconds >= 0 && waitMilliseconds > 0 ? waitMilliseconds : nil
    }

    // MARK: - Timestamp, priority and budget

    /// Makes the command the newest version, with the phase `sending`. Assigns a timestamp to its push, unless the
    /// command repeats a version that is being sent. Returns whether the expiry of the activity's key is renewed.
    private mutating func beginSending(
        _ call: StateAdmission<[UInt8]>,
        isRepeated: Bool,
        nowMilliseconds: Int64
    ) -> Bool {
        if !isRepeated || versionPhase != .sending { assignTimestamp(call.version) }
        let previousHeldCommand = heldCommand
        setNewestVersion(to: call, .sending)
        // The scripts decide the same: search for `decision: expiry`.
        let renewsExpiry =
            heldCommand != previousHeldCommand || lastSendAtMilliseconds / 1_000_000 != nowMilliseconds / 1_000_000
        lastSendAtMilliseconds = nowMilliseconds
        shownDigest = nil
        return renewsExpiry
    }

    /// Decides the priority of a push that may be sent, and draws on the budget for priority 10. Writes the
    /// priority, whether the push is demoted, and the pushes left into the reply.
    private mutating func draw(
        _ call: StateAdmission<[UInt8]>,
        nowMilliseconds: Int64,
        into reply: inout StoreReply<[UInt8]>
    ) {
        // The scripts decide the same: search for `decision: budget`.
        guard let pace else { return }
        let bucket = pace.bucket(call.pace)
        var pushesLeftCount = bucket.pushesLeft(
            fullAtMilliseconds: pace.budgetFullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        reply.priority = PushPriority.low
        if call.requestsHighPriority {
            if hasDrawnOnBudget {
                reply.priority = PushPriority.high
            } else if pushesLeftCount > (call.mayUseReserve ? 0 : bucket.reservedForAlerts) {
                reply.priority = PushPriority.high
                pushesLeftCount -= 1
                hasDrawnOnBudget = true
                self.pace?.budgetFullAtMilliseconds = bucket.fullAfterDrawAtMilliseconds(
                    fullAtMilliseconds: pace.budgetFullAtMilliseconds,
                    nowMilliseconds: nowMilliseconds
                )
            } else {
                reply.isDemoted = true
                self.pace?.budgetFullAtMilliseconds = min(
                    pace.budgetFullAtMilliseconds,
                    bucket.fullAtMillisecondsMax(nowMilliseconds: nowMilliseconds)
                )
            }
        }
        reply.budgetLeft = pushesLeftCount
    }

    // MARK: - Starts

    /// Decides about a record of a start. Several records may bring one start, but only one of them may be sent (R16).
    /// The activity stores the claim of that record.
    mutating func admitStart(
        _ version: Version,
        claim: UInt64,
        previousClaim: UInt64?,
        nowMilliseconds: Int64
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        // Whether Redis knows this start only because its record was read again after a loss of data (`recordStart`).
        // Then Redis has allowed no record of the start to be sent since the loss.
        let isRecordedAgain = start.map { $0.version == version && $0.isRecordedAgain } ?? false
        if let start, !isRecordedAgain {
            // If the stored start is this one, Redis has already allowed a record of it to be sent.
            if start.version == version { return admitRepeatedStart(start, claim: claim, previousClaim: previousClaim) }
            if start.version > version { return (StoreReply(.superseded), .unchanged) }
        }
        // Whether the start is the newest version, but only `recordStart` has stored it, so perhaps it was never sent.
        // Then it is admitted like a new start, unless a token shows that it has reached the phone (see below).
        let isRecordedAsNewest = isRecordedAgain && newestVersion == version && !newestIsEnd
        if let newest = newestVersion, newest >= version, !isRecordedAsNewest {
            // A settled command has exactly the start's version, so the start counts as its repetition.
            if newest == version && versionPhase.isSettled && !newestIsEnd {
                return (StoreReply(.duplicate), .unchanged)
            }
            // Whether the start is newer than the last push: its timestamp is above the last assigned one. It may be
            // equal if `recordStart` assigned the start's own timestamp.
            let isAfterLastTimestamp =
                isRecordedAgain ? version.timestamp >= lastAssignedTimestamp : version.timestamp > lastAssignedTimestamp
            // The start is not needed in three cases: the activity has ended, has a token, or got a push that is not
            // older than the start. Any other start is sent, but the newer version stays the newest.
            if newestIsEnd || token != nil || !isAfterLastTimestamp {
                return (StoreReply(.superseded), .unchanged)
            }
        } else {
            // A token that was registered at the start's timestamp or later shows that a record of the start has
            // reached the phone.
            let tokenRegisteredAtMilliseconds = token?.registeredAtMilliseconds ?? -1
            if isRecordedAgain, tokenRegisteredAtMilliseconds >= version.timestamp * 1_000 {
                return (StoreReply(.duplicate), .unchanged)
            }
            // The start becomes the newest version and begins a life. Remove what belonged to the previous life.
            heldCommand = nil
            token = nil
            acceptedAlertVersion = nil
            versionPhase = .startSending
            newestVersion = version
            newestIsEnd = false
        }
        assignTimestamp(version)
        lastSendAtMilliseconds = nowMilliseconds
        shownDigest = nil
        hasDrawnOnBudget = false
        pace = ActivityPace(beganAtMilliseconds: nowMilliseconds)
        let start = Start(version: version, isSettled: false, assignedTimestamp: lastAssignedTimestamp, claim: claim)
        self.start = start
        return (makeSendReply(start), .renewed)
    }

    /// Stores the version of a start that is read again after a loss of data, and sends nothing (R25). Without this
    /// version, an older end that is also read again would end the life that this start began.
    mutating func recordStart(_ version: Version, nowMilliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange) {
        // If the activity already has this start or a newer one, nothing changes.
        if let start, start.version >= version { return (StoreReply(.settled), .unchanged) }
        let isNewest = newestVersion.map { $0 < version } ?? true
        // A start that becomes the newest version would remove the held command. But perhaps no worker ever sent this
        // start. So keep the held command, and do not store the start.
        if isNewest, heldCommand != nil { return (StoreReply(.settled), .unchanged) }
        beginLife(
            writtenAtMilliseconds: version.timestamp * 1_000,
            mayBeLaterLife: true,
            nowMilliseconds: nowMilliseconds
        )
        // A start that is newer than the newest version, or is the first version, becomes the newest one, and counts as
        // settled.
        if isNewest {
            shownDigest = nil
            hasDrawnOnBudget = false
            versionPhase = .settled
            newestVersion = version
            newestIsEnd = false
            lastAssignedTimestamp = max(lastAssignedTimestamp, version.timestamp)
        }
        // The claim is 0, because Redis has allowed no record of this start since the loss. `admitStart` may still
        // allow a record that is held or deferred.
        start = Start(
            version: version,
            isSettled: false,
            isRecordedAgain: true,
            assignedTimestamp: lastAssignedTimestamp,
            claim: 0
        )
        return (StoreReply(.settled), .renewed)
    }

    /// Decides about a record of a start of which Redis has already allowed one record to be sent. It may be sent in
    /// two cases:
    /// - It has the stored claim: it is the allowed record, and the reply was lost.
    /// - It names the stored claim as its previous claim: it is the allowed record, which was deferred since.
    ///
    /// But even then it gets `superseded` if the activity has ended, or lives already without this push: it has a
    /// token, and the start is settled or not the newest version. Any other record gets `duplicate` if the start is
    /// settled, else `unknown`.
    private mutating func admitRepeatedStart(
        _ repeatedStart: Start,
        claim: UInt64,
        previousClaim: UInt64?
    ) -> (StoreReply<[UInt8]>, ExpiryChange) {
        guard let storedClaim = repeatedStart.claim, storedClaim == claim || storedClaim == previousClaim else {
            return (StoreReply<[UInt8]>(repeatedStart.isSettled ? .duplicate : .unknown), .unchanged)
        }
        if newestIsEnd || (token != nil && versionPhase != .startSending) {
            return (StoreReply(.superseded), .unchanged)
        }
        guard storedClaim != claim else { return (makeSendReply(repeatedStart), .unchanged) }
        start?.claim = claim
        return (makeSendReply(repeatedStart), .renewed)
    }

    private func makeSendReply(_ start: Start) -> StoreReply<[UInt8]> {
        var reply = StoreReply<[UInt8]>(.send)
        reply.timestamp = start.assignedTimestamp
        return reply
    }

    // MARK: - Writing

    /// Makes the command the newest version, with this phase. If an older command is held and has no alert, removes the
    /// held command.
    private mutating func setNewestVersion(to call: StateAdmission<[UInt8]>, _ versionPhase: VersionPhase) {
        if newestVersion != call.version || newestIsEnd != call.isEnd {
            if let heldCommand, !heldCommand.hasAlert { self.heldCommand = nil }
            hasDrawnOnBudget = false
        }
        newestVersion = call.version
        newestIsEnd = call.isEnd
        self.versionPhase = versionPhase
    }

    /// Assigns the timestamp of the push: the version's own timestamp, if it is above the last assigned one. Otherwise
    /// the last assigned one plus a second, at most `Limits.timestampMax`.
    private mutating func assignTimestamp(_ version: Version) {
        // The scripts decide the same: search for `decision: timestamp`.
        let nextTimestamp = min(lastAssignedTimestamp + 1, Limits.timestampMax)
        lastAssignedTimestamp =
            version.timestamp > lastAssignedTimestamp ? version.timestamp : nextTimestamp
    }
}
