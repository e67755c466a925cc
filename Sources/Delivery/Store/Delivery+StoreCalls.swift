import LiveActivity

/// Builds the store calls of records.
extension Delivery {
    private typealias Subject = StoreSubject<UnsafeRawBufferPointer>
    private typealias Operation = StoreCall<UnsafeRawBufferPointer>.Operation

    /// Passes the next call to `body`. The call stays first until the shell reports what became of it, for example with
    /// `removeNextStoreCall`. (To return the call would copy it, which costs 800 instructions for each command that is
    /// sent: Measurements.md.)
    ///
    /// - Parameter body: must not change the core. The call's bytes are valid only while `body` runs.
    /// - Returns: the result of `body`; nil if no call can be made now.
    public mutating func withNextStoreCall<Result>(
        now: Moment,
        _ body: (StoreCall<UnsafeRawBufferPointer>) -> Result
    ) -> Result? {
        if !heldBackRegistrations.isEmpty { resumeHeldBackRegistrationIfRoom() }
        guard var ticket = storeQueue.next(now: now), !holdBackStoreCallsIfNeeded(now: now) else { return nil }
        while skipIfHeldBackOrReplaced(ticket, now: now) {
            guard let next = storeQueue.next(now: now) else { return nil }
            ticket = next
        }
        let slot = records.address(of: ticket.record)
        return body(
            StoreCall(
                tag: ticket.tag,
                subject: storeSubject(of: ticket, slot),
                operation: makeOperation(of: ticket, slot, now: now)
            )
        )
    }

    /// Removes the next call from the front of the queue if it must not be made now: holds back a registration for
    /// which the lane has no room, or supersedes a command that a waiting one replaces. Not inlined: otherwise the
    /// compiler would build the operation of `withNextStoreCall` out of line, which costs 400 instructions for each
    /// call.
    ///
    /// - Returns: whether the call was removed.
    @inline(never)
    private mutating func skipIfHeldBackOrReplaced(_ ticket: StoreTicket, now: Moment) -> Bool {
        ticket.purpose == .registerToken
            ? holdBackRegistrationIfNoRoom(ticket) : supersedeCommandIfReplacedBeforeCall(ticket, now: now)
    }

    /// Returns the activity or device that a call is about. This is not always `texts.subject`: the calls about a
    /// device take its id from `texts.device`, if the record has it there.
    @inline(__always)
    private func storeSubject(of ticket: StoreTicket, _ slot: UnsafePointer<RecordSlot>) -> Subject {
        let app = bundleIds[ticket.appIndex]
        func activity() -> Subject {
            Subject(app: app, kind: .activity, identifier: slot.pointee.bytes(slot.pointee.texts.subject))
        }
        func device() -> Subject {
            Subject(app: app, kind: .device, identifier: slot.pointee.bytes(slot.pointee.texts.device))
        }
        switch ticket.purpose {
        case .admit, .recordStart, .settle, .throttle, .retireToken, .unregisterActivity, .confirmActivityDepartures,
            .reportLifetimeEvent, .checkLifetime:
            return activity()
        case .unregisterDevice where slot.pointee.texts.device.count > 0: return device()
        case .confirmDeviceDepartures where slot.pointee.texts.device.count > 0: return device()
        case .takeStartToken, .settleStart, .refundStart: return device()
        case .hold: return slot.pointee.event == .start ? device() : activity()
        case .registerToken: return slot.pointee.texts.device.count > 0 ? device() : activity()
        case .unregisterDevice, .confirmDeviceDepartures:
            // A tombstone's key may be the id of an activity or of a device. The slot has it in `texts.subject`.
            return Subject(app: app, kind: .device, identifier: slot.pointee.bytes(slot.pointee.texts.subject))
        }
    }

    @inline(__always)
    private mutating func makeOperation(
        of ticket: StoreTicket,
        _ slot: UnsafePointer<RecordSlot>,
        now: Moment
    ) -> Operation {
        let isStart = slot.pointee.event == .start
        switch ticket.purpose {
        case .takeStartToken:
            return .takeStartToken(
                attributesType: slot.pointee.bytes(slot.pointee.texts.attributesType),
                startBudget: policies[slot.pointee.policyIndex].startBudget,
                registration: slot.pointee.tokenRegistrationIfRequired
            )
        case .admit where isStart:
            return .admitStart(
                version: slot.pointee.version,
                claim: slot.pointee.start.claim,
                previousClaim: slot.pointee.start.previousClaim
            )
        case .recordStart: return .recordStart(version: slot.pointee.version)
        case .admit: return .admit(makeAdmission(of: slot, now: now))
        case .hold:
            let command = writeStoredCommand(of: slot)
            guard !isStart else { return .holdStart(slot.pointee.heldStart, command: command) }
            return .hold(version: slot.pointee.version, command: command, hasAlert: slot.pointee.hasAlert)
        case .registerToken: return makeRegistrationOperation(of: slot)
        case .unregisterActivity, .unregisterDevice:
            let attributesType = slot.pointee.texts.attributesType
            return .unregister(
                atMilliseconds: slot.pointee.token.registeredAtWallMilliseconds,
                attributesType: attributesType.count == 0 ? nil : slot.pointee.bytes(attributesType)
            )
        case .settle:
            guard let settlement = slot.pointee.ending.settlement else { preconditionFailure("nothing to settle") }
            return .settle(
                version: slot.pointee.version,
                settlement,
                digest: slot.pointee.digest ?? 0,
                retirement: isStart ? nil : slot.pointee.retirement,
                alert: settlement == .accepted ? slot.pointee.bodyAlertVersion : nil
            )
        case .settleStart:
            // A held start that was not admitted has no settlement of its own. It is settled as `notShown`, so that
            // Redis removes it.
            let settlement = slot.pointee.ending.settlement ?? .notShown
            return .settleStart(slot.pointee.heldStart, settlement, retirement: slot.pointee.retirement)
        case .retireToken:
            guard let retirement = slot.pointee.retirement else { preconditionFailure("nothing to retire") }
            return .retire(version: slot.pointee.version, retirement)
        case .throttle: return .throttle(version: slot.pointee.version, pace: policies[slot.pointee.policyIndex].pace)
        case .refundStart:
            guard case .refunded(let identifier) = slot.pointee.start.draw else {
                preconditionFailure("nothing to refund")
            }
            return .refundStart(
                startBudget: policies[slot.pointee.policyIndex].startBudget,
                drawIdentifier: identifier
            )
        case .confirmActivityDepartures, .confirmDeviceDepartures:
            return .confirmDepartures(
                atMilliseconds: membershipChanges.leftAtWallMilliseconds(of: ChangingMember(ticket))
            )
        case .reportLifetimeEvent:
            return .reportLifetimeEvent(
                lifetimeEvent(of: slot, now: now),
                keeping: writeCommandKeptForRestart(of: slot)
            )
        case .checkLifetime: return makeLifetimeCheck(of: slot)
        }
    }

    @inline(__always)
    private func makeAdmission(
        of slot: UnsafePointer<RecordSlot>,
        now: Moment
    ) -> StateAdmission<UnsafeRawBufferPointer> {
        let isEnd = slot.pointee.event == .end
        return StateAdmission(
            isEnd: isEnd,
            version: slot.pointee.version,
            digest: slot.pointee.digest ?? 0,
            pace: policies[slot.pointee.policyIndex].pace,
            requestsHighPriority: slot.pointee.priority == PushPriority.high,
            mayUseReserve: slot.pointee.hasAlert || isEnd,
            mayReplaceHeldAlert: slot.pointee.mayReplaceHeldAlert,
            carriedAlertVersion: slot.pointee.carriedAlertVersion,
            isTooOld: AgeRules.isStateTooOld(
                timestamp: slot.pointee.version.timestamp,
                isEnd: isEnd,
                nowSeconds: now.wallSeconds
            ),
            isReread: slot.pointee.isReread,
            endsNewerLife: isEnd && (slot.pointee.lifetime.isEnd || policies.restartsActivities),
            isLifetimeEnd: slot.pointee.lifetime.isEnd,
            registration: slot.pointee.tokenRegistrationIfRequired
        )
    }

    /// Returns the operation that registers the token of a registration, or the token that a command brought.
    @inline(__always)
    private func makeRegistrationOperation(of slot: UnsafePointer<RecordSlot>) -> Operation {
        let registration = slot.pointee.tokenRegistration
        let isFromCommand = slot.pointee.source.topic == .commands
        guard slot.pointee.texts.device.count > 0 else {
            let (allowsFrequentUpdates, shownVersion) = (
                slot.pointee.registration.allowsFrequentUpdates, slot.pointee.registration.shownVersion
            )
            return .register(
                registration,
                allowsFrequentUpdates: allowsFrequentUpdates,
                shownVersion: shownVersion,
                source: isFromCommand ? .command : slot.pointee.registrationSource,
                audiences: slot.pointee.namedAudiences
            )
        }
        return .registerDevice(
            attributesType: slot.pointee.bytes(slot.pointee.texts.attributesType),
            registration,
            slot.pointee.registration.wasHeldStart
                ? .nextHeldStart(after: slot.pointee.heldStart)
                : .registerToken(audiences: slot.pointee.namedAudiences),
            isFromCommand: isFromCommand
        )
    }

    /// Writes the command that the timetable must keep for a restart of the activity; nil: it need not keep this
    /// command. The record's bytes are in the shared buffer `storedCommandWriter`: they are valid only until the next
    /// call of this function or of `writeStoredCommand`.
    private mutating func writeCommandKeptForRestart(
        of slot: UnsafePointer<RecordSlot>
    ) -> CommandKeptForRestart<UnsafeRawBufferPointer>? {
        guard slot.pointee.lifetime.mustKeepCommandInTimetable else { return nil }
        return CommandKeptForRestart(
            isStart: slot.pointee.isStart,
            version: slot.pointee.version,
            record: writeStoredCommand(of: slot)
        )
    }

    /// Writes a command as Redis stores it: as a record of the commands topic. The bytes are in the shared buffer
    /// `storedCommandWriter`, and valid only until this function is called again.
    private mutating func writeStoredCommand(of slot: UnsafePointer<RecordSlot>) -> UnsafeRawBufferPointer {
        let app = bundleIds[slot.pointee.appIndex]
        storedCommandWriter.reset()
        RecordView(slot).commandRecord(app: app).write(to: &storedCommandWriter)
        return storedCommandWriter.bytes
    }
}

// These properties are inlined. Otherwise each access would copy the whole slot.
extension RecordSlot {
    /// Whether this command may replace a held command that has an alert: it has an alert itself, or Redis has already
    /// returned the held alert. If false, Redis first returns the held alert, so that this command can carry it.
    @inline(__always) fileprivate var mayReplaceHeldAlert: Bool { hasAlert || alert.heldStatus != .notReported }

    @inline(__always)
    var tokenRegistration: TokenRegistration<UnsafeRawBufferPointer> {
        TokenRegistration(
            token: token.bytes,
            environment: token.environment,
            registeredAtMilliseconds: token.registeredAtWallMilliseconds
        )
    }

    @inline(__always)
    fileprivate var tokenRegistrationIfRequired: TokenRegistration<UnsafeRawBufferPointer>? {
        token.mustBeRegistered ? tokenRegistration : nil
    }

    /// How Redis must retire the token; nil: it must not. If APNs gave no time, the token is retired no matter when it
    /// was registered.
    @inline(__always)
    fileprivate var retirement: TokenRetirement<UnsafeRawBufferPointer>? {
        let invalidAtWallMilliseconds: Int64?
        switch push.tokenRetirementRule {
        case .none: return nil
        case .unlessRegisteredSince(let milliseconds): invalidAtWallMilliseconds = milliseconds
        case .unconditional: invalidAtWallMilliseconds = nil
        }
        return TokenRetirement(
            token: token.bytes,
            environment: token.environment,
            invalidAtMilliseconds: invalidAtWallMilliseconds
        )
    }

    @inline(__always)
    fileprivate var heldStart: HeldStart<UnsafeRawBufferPointer> {
        HeldStart(attributesType: bytes(texts.attributesType), activity: bytes(texts.subject), version: version)
    }
}
