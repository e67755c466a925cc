import LiveActivity
import Redis

/// Writes calls as Redis commands. The first argument of the script `admit` is an operation's name, or a batch of
/// updates, ends and settlements. The script recognizes a batch by its length: a batch is longer than any name.
extension StoreSession {
    typealias Bytes = UnsafeRawBufferPointer

    /// Writes a call, or collects it for a script call that ``flush(on:)`` writes.
    ///
    /// - Parameters:
    ///   - call: a call that `isWithinBounds(of:)` accepts.
    ///   - key: the key of the call's activity or device.
    func issue(_ call: StoreCall<Bytes>, key: Bytes, on connection: RedisConnection) -> IssueResult {
        if let obstacleToIssue = connection.obstacleToIssue { return obstacleToIssue }
        let tag = call.tag
        switch call.operation {
        case .admit(let admission):
            collectAdmission(admission, key: key, tag: tag, on: connection)
        case .settle(let version, let settlement, let digest, let retirement, let alert):
            let code = SettlementCode(settlement)
            flushRegistrations(on: connection)
            commandCallBatch.append(key, code, version, digest: digest, pace: nil, retirement, alert: alert)
            enqueue(StoreSessionCall(tag: tag, kind: .settle), on: connection)
        case .throttle(let version, let pace):
            flushRegistrations(on: connection)
            if !commandCallBatch.hasRoom(for: pace) { flush(on: connection) }
            commandCallBatch.append(key, .throttled, version, digest: 0, pace: pace, nil, alert: nil)
            enqueue(StoreSessionCall(tag: tag, kind: .settle), on: connection)
        case .retire(let version, let retirement):
            flushRegistrations(on: connection)
            commandCallBatch.append(key, .tokenRetired, version, digest: 0, pace: nil, retirement, alert: nil)
            enqueue(StoreSessionCall(tag: tag, kind: .settle), on: connection)
        case .register(let registration, let allowsFrequentUpdates, let shownVersion, let source, let audiences):
            flushCommandCalls(on: connection)
            // A registration whose token came with a command gets a script call of its own, so that the held command
            // always fits into the reply. Otherwise the reply might be `full`, after which the core does not always
            // repeat such a registration.
            let isFromCommand = source == .command
            if isFromCommand { flushRegistrations(on: connection) }
            registrationBatch.append(
                key,
                registration,
                allowsFrequentUpdates: allowsFrequentUpdates,
                shownVersion: shownVersion,
                source: source,
                audiences: audiences
            )
            enqueue(StoreSessionCall(tag: tag, kind: .register), on: connection)
            if isFromCommand { flushRegistrations(on: connection) }
        case .confirmDepartures(let atMilliseconds) where call.subject.kind == .activity:
            flushCommandCalls(on: connection)
            registrationBatch.append(key, confirmingDeparturesAt: atMilliseconds)
            enqueue(StoreSessionCall(tag: tag, kind: .confirmDepartures), on: connection)
        case .admitStart, .recordStart, .hold, .unregister, .reopen, .confirmDepartures:
            writeUnbatchedCall(call, key: key, on: connection)
        case .takeStartToken, .holdStart, .registerDevice, .settleStart, .refundStart:
            writeDeviceCall(call, key: key, on: connection)
        case .reportLifetimeEvent, .checkLifetime:
            preconditionFailure("a call about a lifetime has a key of its own")
        }
        return .issued
    }

    /// Collects an update or an end. First writes the collected registrations, because Redis must get all calls in the
    /// order in which they were issued. Also writes the batch of updates, ends and settlements first if it has no room
    /// for this call.
    private func collectAdmission(
        _ admission: StateAdmission<Bytes>,
        key: Bytes,
        tag: UInt64,
        on connection: RedisConnection
    ) {
        flushRegistrations(on: connection)
        if !commandCallBatch.hasRoom(for: admission.pace) { flush(on: connection) }
        commandCallBatch.append(key, admission)
        let call = StoreSessionCall(
            tag: tag,
            kind: admission.isEnd ? .end : .update,
            timestamp: admission.version.timestamp,
            requestsHighPriority: admission.requestsHighPriority,
            budget: admission.pace.budget,
            frequentBudget: admission.pace.frequentBudget
        )
        enqueue(call, on: connection)
    }

    /// Notes that a call in one of the batches awaits its reply. Writes the batches if one of them is full.
    private func enqueue(_ call: StoreSessionCall, on connection: RedisConnection) {
        outstandingCalls.append(call)
        connection.appendCall(isWritten: false, needsReplicas: call.kind.needsReplicas)
        if commandCallBatch.isFull || registrationBatch.isFull { flush(on: connection) }
    }

    /// Writes a call that no batch collects, as a Redis command of its own: an operation that activities have, or that
    /// activities and devices have. `writeDeviceCall` writes the operations that only devices have.
    private func writeUnbatchedCall(_ call: StoreCall<Bytes>, key: Bytes, on connection: RedisConnection) {
        switch call.operation {
        case .admitStart(let version, let claim, let previousClaim):
            write(.start, call.tag, key, argumentCount: 4, argumentBytes: 88, on: connection) {
                $0.writeArgument(operation: "admitStart")
                $0.writeArgument(version)
                $0.writeArgument(claim: claim)
                if let previousClaim { $0.writeArgument(claim: previousClaim) } else { $0.writeEmptyArgument() }
            }
        case .recordStart(let version):
            write(.recordStart, call.tag, key, argumentCount: 2, argumentBytes: 32, on: connection) {
                $0.writeArgument(operation: "recordStart")
                $0.writeArgument(version)
            }
        case .hold(let version, let command, let hasAlert):
            write(.hold, call.tag, key, argumentCount: 5, argumentBytes: 64 + command.count, on: connection) {
                $0.writeArgument(operation: "hold")
                $0.writeTextArgument(version)
                $0.writeArgument(command)
                $0.writeArgument(letter: UInt8(ascii: hasAlert ? "1" : "0"))
                $0.writeArgument(version)
            }
        case .unregister(let atMilliseconds, let type):
            let (count, bytes) = (type == nil ? 2 : 3, 64 + (type?.count ?? 0))
            write(.unregister, call.tag, key, argumentCount: count, argumentBytes: bytes, on: connection) {
                $0.writeArgument(operation: call.subject.kind == .device ? "unregisterDevice" : "unregister")
                $0.writeArgument(milliseconds: atMilliseconds)
                if let type { $0.writeArgument(attributesType: type) }
            }
        case .reopen(let version):
            write(.reopen, call.tag, key, argumentCount: 2, argumentBytes: 32, on: connection) {
                $0.writeArgument(operation: "reopen")
                $0.writeArgument(version)
            }
        case .confirmDepartures(let atMilliseconds):
            write(.confirmDepartures, call.tag, key, argumentCount: 2, argumentBytes: 32, on: connection) {
                $0.writeArgument(operation: "confirmDeviceDepartures")
                $0.writeArgument(binaryMilliseconds: atMilliseconds)
            }
        default:
            preconditionFailure("an operation of another kind")
        }
    }

    /// Writes an operation that only devices have, as a Redis command of its own.
    private func writeDeviceCall(_ call: StoreCall<Bytes>, key: Bytes, on connection: RedisConnection) {
        switch call.operation {
        case .takeStartToken(let type, let startBudget, let registration):
            let count = registration == nil ? 3 : 5
            let bytes =
                64 + type.count + RedisCommandWriter.startBudgetArgumentBytes + StoredDeviceToken.bytesMax
            write(.takeStartToken, call.tag, key, argumentCount: count, argumentBytes: bytes, on: connection) {
                $0.writeArgument(operation: "takeStartToken")
                $0.writeArgument(attributesType: type)
                $0.writeStartBudgetArgument(startBudget)
                if let registration { $0.writeDeviceTokenArguments(registration) }
            }
        case .holdStart(let start, let command):
            let bytes = 64 + start.byteCount + command.count
            write(.hold, call.tag, key, argumentCount: 6, argumentBytes: bytes, on: connection) {
                $0.writeArgument(operation: "holdStart")
                $0.writeArgument(attributesType: start.attributesType)
                $0.writeTextArgument(start.version)
                $0.writeArgument(command)
                $0.writeEmptyArgument()
                $0.writeArgument(start.activity)
            }
        case .registerDevice(let type, let registration, let step, let isFromCommand):
            let (previousStart, audiences) = (step.previousStart, step.audiences)
            let bytes =
                128 + type.count + StoredDeviceToken.bytesMax + (previousStart?.byteCount ?? 0)
                + (audiences?.count ?? 0)
            write(
                .register,
                call.tag,
                key,
                argumentCount: audiences == nil ? 7 : 8,
                argumentBytes: bytes,
                on: connection
            ) {
                $0.writeArgument(operation: "registerDevice")
                $0.writeArgument(attributesType: type)
                $0.writeDeviceTokenArguments(registration)
                if let previousStart { $0.writeTextArgument(previousStart.version) } else { $0.writeEmptyArgument() }
                if let previousStart { $0.writeArgument(previousStart.activity) } else { $0.writeEmptyArgument() }
                $0.writeArgument(letter: UInt8(ascii: isFromCommand ? "1" : "0"))
                if let audiences { $0.writeArgument(audiences) }
            }
        case .settleStart(let start, let settlement, let retirement):
            let count = retirement == nil ? 3 : 6
            let bytes = 96 + start.byteCount + StoredDeviceToken.bytesMax
            write(.settle, call.tag, key, argumentCount: count, argumentBytes: bytes, script: .settle, on: connection) {
                $0.writeArgument(settlement, start.version)
                $0.writeArgument(attributesType: start.attributesType)
                $0.writeArgument(start.activity)
                if let retirement { $0.writeRetirementArguments(retirement) }
            }
        case .refundStart(let startBudget, let drawIdentifier):
            let bytes = 32 + RedisCommandWriter.refundArgumentBytes
            write(.settle, call.tag, key, argumentCount: 1, argumentBytes: bytes, script: .settle, on: connection) {
                $0.writeRefundArgument(startBudget, drawIdentifier: drawIdentifier)
            }
        default:
            preconditionFailure("an operation of another kind")
        }
    }

    /// Writes a call as a Redis command of its own, after all calls that were collected.
    ///
    /// - Parameters:
    ///   - keyCount: the number of keys. `arguments` writes all keys except `key`, before everything else.
    ///   - argumentCount: the number of arguments after `key`.
    ///   - argumentBytes: the maximum length of these arguments together, without the operation's name and RESP's
    ///     additions.
    func write(
        _ kind: StoreCallKind,
        _ tag: UInt64,
        _ key: Bytes,
        keyCount: UInt8 = 1,
        argumentCount: Int,
        argumentBytes: Int,
        script: StoreScript = .admit,
        on connection: RedisConnection,
        _ arguments: (inout RedisCommandWriter) -> Void
    ) {
        flush(on: connection)
        let overhead =
            RedisCommandWriter.argumentOverheadBytes * (argumentCount + 3) + RedisCommandWriter.operationNameBytesMax
        let prefix = connection.scriptCallPrefixes[script.rawValue]
        let bytesMax = ScriptCallPrefixes.bytesPerPrefix + key.count + argumentBytes + overhead
        connection.write(callCount: 0, bytesMax: bytesMax) { room in
            var writer = RedisCommandWriter(
                room,
                argumentCount: ScriptCallPrefixes.argumentsPerPrefix + 2 + argumentCount
            )
            writer.writeVerbatim(prefix)
            writer.writeArgument(letter: UInt8(ascii: "0") + keyCount)
            writer.writeArgument(key)
            arguments(&writer)
            return writer.count
        }
        outstandingCalls.append(StoreSessionCall(tag: tag, kind: kind))
        connection.appendCall(isWritten: true, needsReplicas: kind.needsReplicas)
    }
}

// MARK: - Bounds

extension StoreCall<UnsafeRawBufferPointer>.Operation {
    /// Whether all parts of the operation are within their limits, and the operation suits this kind of subject. For
    /// example, `holdStart` suits only a device.
    func isWithinBounds(of kind: StoreSubjectKind) -> Bool {
        switch self {
        case .admit(let admission):
            kind == .activity && admission.version.isStorable && (admission.carriedAlertVersion?.isStorable ?? true)
                && (admission.registration?.isWithinBounds ?? true)
        case .admitStart(let version, _, _), .recordStart(let version), .throttle(let version, _),
            .reopen(let version):
            kind == .activity && version.isStorable
        case .hold(let version, let command, _):
            kind == .activity && version.isStorable && Self.isHoldable(command)
        case .register(let registration, _, let shownVersion, _, let audiences):
            kind == .activity && registration.isWithinBounds && (shownVersion?.isStorable ?? true)
                && Self.isAudienceListValid(audiences)
        case .retire(let version, let retirement):
            kind == .activity && version.isStorable && retirement.isWithinBounds
        case .settle(let version, _, _, let retirement, let alert):
            kind == .activity && version.isStorable && (alert?.isStorable ?? true)
                && (retirement?.isWithinBounds ?? true)
        case .takeStartToken(let type, _, let registration):
            kind == .device && Self.isAttributesTypeValid(type) && (registration?.isWithinBounds ?? true)
        case .holdStart(let start, let command):
            kind == .device && start.isWithinBounds && Self.isHoldable(command)
        case .registerDevice(let type, let registration, let step, _):
            kind == .device && Self.isAttributesTypeValid(type) && registration.isWithinBounds
                && (step.previousStart?.isWithinBounds ?? true) && Self.isAudienceListValid(step.audiences)
        case .settleStart(let start, _, let retirement):
            kind == .device && start.isWithinBounds && (retirement?.isWithinBounds ?? true)
        case .refundStart:
            kind == .device
        case .unregister(_, let type):
            type.map { kind == .device && Self.isAttributesTypeValid($0) } ?? true
        case .confirmDepartures:
            true
        case .reportLifetimeEvent(_, let kept):
            kind == .activity && (kept.map { $0.version.isStorable && Self.isHoldable($0.record) } ?? true)
        case .checkLifetime:
            kind == .activity
        }
    }

    /// Whether the call is about a timetable of lifetimes, not about the activity's own value.
    @inline(__always) var isLifetimeCall: Bool {
        switch self {
        case .reportLifetimeEvent, .checkLifetime: true
        default: false
        }
    }

    /// Whether the reply waits until replicas have acknowledged the write. The reasons are at
    /// ``StoreCallKind/needsReplicas``.
    var needsReplicas: Bool {
        switch self {
        case .register, .registerDevice, .unregister, .hold, .holdStart: true
        default: false
        }
    }

    fileprivate static func isAttributesTypeValid(_ type: UnsafeRawBufferPointer) -> Bool {
        (1...StoreLimits.attributesTypeBytesMax).contains(type.count)
    }

    private static func isAudienceListValid(_ list: UnsafeRawBufferPointer?) -> Bool {
        guard let list else { return true }
        return list.count % AudienceList.digestBytes == 0
            && AudienceList(list).count <= Limits.audiencesPerRegistrationMax
    }

    private static func isHoldable(_ command: UnsafeRawBufferPointer) -> Bool {
        (1...StoreLimits.heldCommandBytesMax).contains(command.count)
    }
}

extension TokenRegistration<UnsafeRawBufferPointer> {
    fileprivate var isWithinBounds: Bool { (1...StoreLimits.tokenBytesMax).contains(token.count) }
}

extension TokenRetirement<UnsafeRawBufferPointer> {
    fileprivate var isWithinBounds: Bool { (1...StoreLimits.tokenBytesMax).contains(token.count) }
}

extension HeldStart<UnsafeRawBufferPointer> {
    fileprivate var byteCount: Int { attributesType.count + 1 + activity.count }

    fileprivate var isWithinBounds: Bool {
        StoreCall<UnsafeRawBufferPointer>.Operation.isAttributesTypeValid(attributesType)
            && (1...SubjectKey.bytesMax).contains(activity.count) && version.isStorable
    }
}
