public import LiveActivity

extension StoreCall {
    /// Returns the same call with `transform` applied to all its bytes, such as ids and tokens. A caller uses it to
    /// copy borrowed bytes, so that it can keep the call, and later to borrow the copies.
    public func map<Other>(_ transform: (Bytes) -> Other) -> StoreCall<Other> {
        StoreCall<Other>(
            tag: tag,
            subject: StoreSubject(
                app: transform(subject.app),
                kind: subject.kind,
                identifier: transform(subject.identifier)
            ),
            operation: operation.map(transform)
        )
    }
}

extension StoreCall.Operation {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> StoreCall<Other>.Operation {
        switch self {
        case .admit(let admission): .admit(admission.map(transform))
        case .admitStart(let version, let claim, let previousClaim):
            .admitStart(version: version, claim: claim, previousClaim: previousClaim)
        case .recordStart(let version): .recordStart(version: version)
        case .hold(let version, let command, let hasAlert):
            .hold(version: version, command: transform(command), hasAlert: hasAlert)
        case .register(let registration, let allowsFrequentUpdates, let shownVersion, let source, let audiences):
            .register(
                registration.map(transform),
                allowsFrequentUpdates: allowsFrequentUpdates,
                shownVersion: shownVersion,
                source: source,
                audiences: audiences.map(transform)
            )
        case .retire(let version, let retirement): .retire(version: version, retirement.map(transform))
        case .settle(let version, let settlement, let digest, let retirement, let alert):
            .settle(version: version, settlement, digest: digest, retirement: retirement?.map(transform), alert: alert)
        case .throttle(let version, let pace): .throttle(version: version, pace: pace)
        case .reopen(let version): .reopen(version: version)
        case .takeStartToken(let type, let startBudget, let registration):
            .takeStartToken(
                attributesType: transform(type),
                startBudget: startBudget,
                registration: registration?.map(transform)
            )
        case .holdStart(let start, let command): .holdStart(start.map(transform), command: transform(command))
        case .registerDevice(let type, let registration, let step, let isFromCommand):
            .registerDevice(
                attributesType: transform(type),
                registration.map(transform),
                step.map(transform),
                isFromCommand: isFromCommand
            )
        case .settleStart(let start, let settlement, let retirement):
            .settleStart(start.map(transform), settlement, retirement: retirement?.map(transform))
        case .refundStart(let startBudget, let drawIdentifier):
            .refundStart(startBudget: startBudget, drawIdentifier: drawIdentifier)
        case .unregister(let atMilliseconds, let type):
            .unregister(atMilliseconds: atMilliseconds, attributesType: type.map(transform))
        case .confirmDepartures(let atMilliseconds): .confirmDepartures(atMilliseconds: atMilliseconds)
        case .reportLifetimeEvent(let event, let kept): .reportLifetimeEvent(event, keeping: kept?.map(transform))
        case .checkLifetime(let beganAtMilliseconds, let stateVersion, let claimDelayMilliseconds):
            .checkLifetime(
                beganAtMilliseconds: beganAtMilliseconds,
                stateVersion: stateVersion,
                claimDelayMilliseconds: claimDelayMilliseconds
            )
        }
    }
}

extension StateAdmission {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> StateAdmission<Other> {
        StateAdmission<Other>(
            isEnd: isEnd,
            version: version,
            digest: digest,
            pace: pace,
            requestsHighPriority: requestsHighPriority,
            mayUseReserve: mayUseReserve,
            mayReplaceHeldAlert: mayReplaceHeldAlert,
            carriedAlertVersion: carriedAlertVersion,
            isTooOld: isTooOld,
            isReread: isReread,
            endsNewerLife: endsNewerLife,
            isLifetimeEnd: isLifetimeEnd,
            registration: registration?.map(transform)
        )
    }
}

extension TokenRegistration {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> TokenRegistration<Other> {
        TokenRegistration<Other>(
            token: transform(token),
            environment: environment,
            registeredAtMilliseconds: registeredAtMilliseconds
        )
    }
}

extension TokenRetirement {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> TokenRetirement<Other> {
        TokenRetirement<Other>(
            token: transform(token),
            environment: environment,
            invalidAtMilliseconds: invalidAtMilliseconds
        )
    }
}

extension DeviceRegistrationStep {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> DeviceRegistrationStep<Other> {
        switch self {
        case .registerToken(let audiences, let supportsChannels):
            .registerToken(audiences: audiences.map(transform), supportsChannels: supportsChannels)
        case .nextHeldStart(let start): .nextHeldStart(after: start.map(transform))
        }
    }
}

extension CommandKeptForRestart {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> CommandKeptForRestart<Other> {
        CommandKeptForRestart<Other>(isStart: isStart, version: version, record: transform(record))
    }
}

extension HeldStart {
    fileprivate func map<Other>(_ transform: (Bytes) -> Other) -> HeldStart<Other> {
        HeldStart<Other>(
            attributesType: transform(attributesType),
            activity: transform(activity),
            version: version
        )
    }
}

extension StoreReply {
    /// Returns the same reply with `transform` applied to all its bytes.
    public func map<Other>(_ transform: (Bytes) -> Other) -> StoreReply<Other> {
        var reply = StoreReply<Other>(verdict)
        reply.waitMilliseconds = waitMilliseconds
        reply.timestamp = timestamp
        reply.registration = registration?.map(transform)
        reply.drawIdentifier = drawIdentifier
        reply.priority = priority
        reply.isDemoted = isDemoted
        reply.budgetLeft = budgetLeft
        reply.heldCommand = heldCommand.map(transform)
        reply.hasRetiredToken = hasRetiredToken
        reply.wasMemberOfAllAudiences = wasMemberOfAllAudiences
        reply.isUnshownDuplicate = isUnshownDuplicate
        reply.registeredAtMilliseconds = registeredAtMilliseconds
        reply.departures = departures.map(transform)
        return reply
    }
}

extension StoreCall<[UInt8]> {
    /// Passes the call to `body`, with bytes that are valid while `body` runs.
    public func withBorrowedBytes<Result>(_ body: (StoreCall<UnsafeRawBufferPointer>) -> Result) -> Result {
        let copies = ByteCopies()
        return withExtendedLifetime(copies) { body(map { copies.copy($0) }) }
    }
}

extension StoreReply<[UInt8]> {
    /// Passes the reply to `body`, with bytes that are valid while `body` runs.
    public func withBorrowedBytes<Result>(_ body: (StoreReply<UnsafeRawBufferPointer>) -> Result) -> Result {
        let copies = ByteCopies()
        return withExtendedLifetime(copies) { body(map { copies.copy($0) }) }
    }
}

/// Holds copies of bytes. The copies are valid as long as this object lives.
private final class ByteCopies {
    private var copies: [UnsafeMutableRawBufferPointer] = []

    deinit {
        for copy in copies { copy.deallocate() }
    }

    func copy(_ bytes: [UInt8]) -> UnsafeRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        copy.copyBytes(from: bytes)
        copies.append(copy)
        return UnsafeRawBufferPointer(copy)
    }
}
