import LiveActivity

/// Registers tokens, and continues the commands that were held for a token.
///
/// Example: Redis holds starts of two activities for the token of one device. A registration of the device returns the
/// older start. When this start is finished, the same record registers the token again, and gets the other start. So
/// the starts draw on the device's budget one after another.
///
/// A command may bring a token too. Its admission registers the token, but only the reply to a registration returns a
/// held command. So after outcomes that may leave a held command in Redis, the command's record registers the token
/// once more before it settles (`planTokenRegistrationIfNeeded`).
///
/// A registration that Redis calls stale, usually because Redis has a newer one, registers no token. But for a device,
/// the reply to a stale registration returns the next held start too, which is sent with the newer token. Otherwise
/// this start could be lost:
/// 1. A registration releases the start, which then waits in a lane. A newer registration of the device settles.
/// 2. The partition of the older registration moves. Its next owner reads the older registration again, which is now
///    stale. Only the reply to this record can return the start.
extension Delivery {
    /// The maximum number of results of one record. A record has a result for its own command, and one for each held
    /// command that its token releases. It settles only after the last result, so without a limit it might never
    /// settle.
    ///
    /// The limit is higher than the number of starts that Redis holds for a token at one time
    /// (`StoreLimits.heldStartsMax`). A record reaches it only if further starts are held meanwhile, or if Redis
    /// releases the same start again and again.
    static var resultsPerRecordMax: UInt8 { 16 }

    /// Plans that a finished record registers its token again, if Redis may hold commands for the token
    /// (`OutcomeEffects`). Does nothing if the record may have no further result (`resultsPerRecordMax`).
    mutating func planTokenRegistrationIfNeeded(of record: RecordIndex, _ outcome: Outcome) {
        let slot = records.mutableAddress(of: record)
        guard slot.pointee.ending.earlierResultCount < Self.resultsPerRecordMax - 1 else { return }
        let effects = outcome.effects
        if effects.contains(.registersTokenAgain)
            || slot.pointee.isStart && effects.contains(.registersTokenAgainIfStart)
        {
            slot.pointee.ending.followUps.insert(.registerToken)
        }
    }

    /// Turns a record whose command is finished into a registration of the token that the command brought, or that
    /// released the command.
    mutating func registerToken(of record: RecordIndex) {
        records.enter(record, .awaitingRedis)
        records.noteEndOfReleasedCommand(record)
        let slot = records[record]
        var registration = RecordSlot(registeringTokenOf: slot)
        if !registration.takeOverUnsentBody(of: slot) { records.release(slot.body) }
        records[record] = registration
        queueStoreCall(.registerToken, record)
    }

    /// Handles the reply to a call `registerToken`. The first of these that applies happens:
    /// - If a current command made the call, this command continues (`continueAfterTokenRegistration`).
    /// - If the registration must notify audiences, it first does so (`beginMembershipChange`).
    /// - If the reply has a command that was held for the token, the registration's slot becomes this command's. The
    ///   registration is settled when the command is settled.
    /// - Otherwise the registration is settled now.
    mutating func handleRegistrationReply(_ record: RecordIndex, _ reply: Reply, now: Moment) {
        if records[record].stage == .current {
            return continueAfterTokenRegistration(record, isNewerCommandHeld: reply.heldCommand != nil, now: now)
        }
        if beginMembershipChange(record, reply, now: now) { return }
        guard reply.verdict == .registered, let heldCommand = reply.heldCommand else {
            return settleWithoutResult(record)
        }
        // Drop the registration if its partition is revoked: the next owner registers the token again, and gets the
        // held command. If this lane is the next owner itself, it would otherwise have the command twice.
        if isPartitionRevoked(record) { return drop(record, now: now) }
        do throws(Fault) {
            let command = try Command.decodeWrittenByCauseway(heldCommand)
            let slot = records[record]
            records.enter(record, .received)
            let isReread = slot.mayHaveReleasedBeforeLoss(command)
            records[record].isReread = isReread
            // The policy was configured when the command was first read. If it is not configured any more, the app's
            // default policy applies.
            records[record].policyIndex =
                findPolicyIndex(of: command, of: slot.appIndex, in: heldCommand)
                ?? defaultPolicyIndex(of: slot.appIndex)
            fillSlot(record, with: command, from: heldCommand, trace: slot.bytes(slot.texts.trace))
            records.noteReleasedCommand(record)
            records.setBody(of: record, to: command, from: heldCommand)
            if command.event != .start, slot.mayHaveReleasedAlertBeforeLoss(of: command) {
                removeAlert(ofRereadRecord: record)
                // If the token came with a command, Redis still has this alert. Do not let the admission bring it back.
                // (If the token came with a registration, Redis has forgotten the alert: `RegistrationSource.reread`.)
                records[record].alert.heldStatus = .movedOrNotNeeded
            } else if command.carriedAlertVersion.timestamp > 0 {
                records[record].alert.sourceVersion = command.carriedAlertVersion
            }
            copyAlert(of: slot, to: record, now: now)
            if command.event == .start {
                // Redis still holds this start. When it is finished, its record registers the token again, to release
                // the device's other held starts.
                records[record].start.isHeld = true
                records.setRegistration(of: record, to: slot.tokenRegistration)
            }
            records.free(contentOf: slot)
            // The slot has a held command now, and no registration, so clear these fields. When the command is
            // finished, `registerToken` may make the slot a registration again, and then sets the fields.
            records[record].registration.audienceDigests = BlockRange()
            records[record].registration.wasHeldStart = false
            // The token is registered already, and the reply to the admission will name it. So the admission need not
            // register it.
            records[record].token.mustBeRegistered = false
            if isReread, command.event == .start {
                return settleReleasedRereadStart(record, command, from: heldCommand, now: now)
            }
            enqueue(record, now: now)
            endBatch(now: now)
        } catch {
            // The held command is not valid, so it is lost. Another program wrote it, or a newer release of Causeway.
            // The registration itself is valid.
            heldCommandFault = error
            settleWithoutResult(record)
        }
    }

    /// Settles a held start that a reread registration has released once more. The start is not sent, because it was
    /// sent before the loss (R25). Redis removes the start from the key of its device, and the record registers the
    /// token again, to release the device's other held starts.
    private mutating func settleReleasedRereadStart(
        _ record: RecordIndex,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        now: Moment
    ) {
        records[record].ending.followUps.insert(.removeHeldStart)
        planTokenRegistrationIfNeeded(of: record, .accepted)
        settleRereadStart(record, command, from: value, isSlotFilled: true, now: now)
    }

    /// Removes and returns the fault of a held command that could not be read; nil if there is none. The core keeps one
    /// fault at a time, the newest.
    public mutating func takeHeldCommandFault() -> Fault? {
        guard let fault = heldCommandFault else { return nil }
        heldCommandFault = nil
        return fault
    }

    /// Continues the current command after its call `registerToken`, whether the call has a reply or was refused. The
    /// command brought the token, and Redis replied `alertAwaitsCarrier` to its admission: Redis has a newer command,
    /// which may carry the alert of the current one.
    /// - If Redis holds the newer command for the token (`isNewerCommandHeld`), the current command is finished as
    ///   `superseded`. After its result, its record registers the token a second time: the newer command then takes the
    ///   slot of the current one, and `copyAlert` copies the alert into the body of the newer command.
    /// - Otherwise the current command waits until this lane reads the newer one (`awaitCarrierOrFinish`).
    mutating func continueAfterTokenRegistration(_ record: RecordIndex, isNewerCommandHeld: Bool, now: Moment) {
        let activity = activityOfCurrentCommand(record, in: .registeringToken)
        if isNewerCommandHeld {
            finish(record, .superseded)
            return endTurn(of: activity, now: now)
        }
        records[record].token.mustBeRegistered = false
        awaitCarrierOrFinish(of: activity, now: now)
    }

    /// Copies the alert of `older`, the superseded command that brought the token, into the body of `record`, the held
    /// command that the token released. So the alert is not lost (R14). Does nothing if any of these is true:
    /// - `older` has no alert, has expired, or is not older than `record`.
    /// - `record` is a start, has an alert of its own, or its body has no room for the alert.
    private mutating func copyAlert(of older: RecordSlot, to record: RecordIndex, now: Moment) {
        let slot = records.mutableAddress(of: record)
        guard !older.bodyLayout.alert.isAbsent, !older.isExpired(now: now), !slot.pointee.isStart,
            !slot.pointee.hasAlert, older.version < slot.pointee.version,
            slot.pointee.hasRoom(forAlertBytes: Int(older.bodyLayout.alert.count))
        else { return }
        records.write(older.alertJSON, of: older.alert.sourceVersion ?? older.version, intoBodyOf: record)
        slot.pointee.priority = max(slot.pointee.priority, older.priority)
        countCarriedAlert()
    }
}

extension Command {
    /// The version of the command that brought this held command's alert: an older command, or this one.
    var alertVersion: Version { carriedAlertVersion.timestamp > 0 ? carriedAlertVersion : version }

    /// Whether a registration of the activity's token, or of the device's, probably released this held command before
    /// Redis lost data. False if the command is newer than the registration: such a command was probably first held
    /// after the loss, and waits for the lost token. Both answers may be wrong:
    /// - An older command that came late was held only after the loss too (K11).
    /// - A newer command may have been released before the loss, and is then sent again (K18).
    ///
    /// - Parameter milliseconds: when the token was registered, UNIX milliseconds; 0: never.
    func mayHaveBeenReleasedBeforeLoss(byRegistrationAt milliseconds: Int64) -> Bool {
        version.timestamp * 1_000 <= milliseconds
    }

    /// Whether a registration at this time probably released this command's alert before Redis lost data: with this
    /// command, or with an older one from which this command got the alert after the loss.
    ///
    /// - Parameter milliseconds: when the token was registered, UNIX milliseconds; 0: never.
    func mayAlertHaveBeenReleasedBeforeLoss(byRegistrationAt milliseconds: Int64) -> Bool {
        alertVersion.timestamp * 1_000 <= milliseconds
    }
}

extension RecordSlot {
    /// Whether this is a reread registration that seems to have released the held command before the loss: the command
    /// then has an outcome already. The core can only judge by the times, so it may err (K11).
    fileprivate func mayHaveReleasedBeforeLoss(_ command: Command) -> Bool {
        isReread && command.mayHaveBeenReleasedBeforeLoss(byRegistrationAt: latestRegistrationAtWallMilliseconds)
    }

    /// Whether this is a reread registration that seems to have released the held command's alert before the loss.
    fileprivate func mayHaveReleasedAlertBeforeLoss(of command: Command) -> Bool {
        isReread && command.mayAlertHaveBeenReleasedBeforeLoss(byRegistrationAt: latestRegistrationAtWallMilliseconds)
    }

    /// Where the token of this record of the registrations topic comes from.
    @inline(__always)
    var registrationSource: RegistrationSource {
        guard isReread else { return .record }
        let latestWallMilliseconds = latestRegistrationAtWallMilliseconds
        return .reread(
            alertsReleasedUntilMilliseconds: latestWallMilliseconds,
            writtenAtMilliseconds: latestWallMilliseconds
        )
    }

    /// When the token was registered, or Kafka's timestamp of the record if that is later, UNIX milliseconds.
    private var latestRegistrationAtWallMilliseconds: Int64 {
        max(token.registeredAtWallMilliseconds, times.recordTimestampMilliseconds)
    }

    /// Makes the slot of a record that continues as a registration after its command is finished. The slot gets the
    /// token that the command brought or, for a held command, the token that released the command.
    fileprivate init(registeringTokenOf slot: RecordSlot) {
        self.init(
            kind: .registration,
            stage: slot.stage,
            isReread: slot.isReread,
            appIndex: slot.appIndex,
            ending: RecordEnding(earlierResultCount: slot.ending.earlierResultCount &+ 1),
            ledgerPlace: slot.ledgerPlace,
            version: slot.version,
            token: slot.token,
            texts: RecordTexts(
                block: slot.texts.block,
                subject: slot.texts.subject,
                device: slot.texts.device,
                attributesType: slot.texts.attributesType,
                trace: slot.texts.trace,
                reason: slot.texts.reason
            ),
            source: slot.source,
            times: RecordTimes(
                receivedAtWallMilliseconds: slot.times.receivedAtWallMilliseconds,
                recordTimestampMilliseconds: slot.times.recordTimestampMilliseconds
            ),
            registration: RecordRegistration(skipsMembershipChange: true, wasHeldStart: slot.start.isHeld)
        )
        token.mustBeRegistered = false
    }

    /// Moves the body of the finished command to this registration, if the command is a superseded update or end: an
    /// alert in it was not sent, and `copyAlert` may write it into a held command.
    ///
    /// - Returns: false, without a change, for any other command: its body is not needed any more.
    fileprivate mutating func takeOverUnsentBody(of slot: RecordSlot) -> Bool {
        guard slot.event != .start, slot.ending.outcome.effects.contains(.alertMayBeUnsent) else { return false }
        (expirationSeconds, priority) = (slot.expirationSeconds, slot.priority)
        (body, bodyLayout) = (slot.body, slot.bodyLayout)
        return true
    }
}
