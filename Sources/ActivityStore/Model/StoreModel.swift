public import LiveActivity

/// A model of the scripts that keeps everything in dictionaries. It gives the same replies, and stores the same data,
/// as a Redis server.
///
/// The simulation runs the model instead of Redis, and a differential test compares it with a real server.
public struct StoreModel: Sendable {
    /// The server's clock, UNIX milliseconds. The owner of the model advances it.
    public var nowMilliseconds: Int64
    /// The maximum number of starts that are held for one device and attributes type. A test may lower it; the scripts
    /// have ``StoreLimits/heldStartsMax``.
    public var heldStartsMax = StoreLimits.heldStartsMax
    /// The activities by ``key(of:)``.
    public internal(set) var activities: [String: ActivityState] = [:]
    public internal(set) var devices: [String: DeviceState] = [:]
    /// The entries of all timetables of lifetimes, by ``key(of:)``.
    public internal(set) var lives: [String: TimetableEntry] = [:]

    public init(nowMilliseconds: Int64) {
        self.nowMilliseconds = nowMilliseconds
    }

    /// Returns the key under which the model keeps an activity or a device. It is the key in Redis (`SubjectKey`),
    /// except that an activity's UUID is not packed.
    public static func key(of subject: StoreSubject<[UInt8]>) -> String {
        "{\(text(subject.app))\(subject.kind == .activity ? "=" : "/")\(text(subject.identifier))}"
    }

    public mutating func perform(_ call: StoreCall<UnsafeRawBufferPointer>) -> StoreReply<[UInt8]> {
        perform(call.map { Array($0) })
    }

    public mutating func perform(_ call: StoreCall<[UInt8]>) -> StoreReply<[UInt8]> {
        let key = Self.key(of: call.subject)
        switch call.operation {
        case .reportLifetimeEvent(let event, let kept):
            TimetableEntry.apply(event, keeping: kept, in: &lives[key])
            return StoreReply(.settled)
        case .checkLifetime(let beganAtMilliseconds, let stateVersion, let claimDelayMilliseconds):
            // The model has no claims, so the delay never doubles.
            let nextClaimAtMilliseconds = nowMilliseconds + claimDelayMilliseconds
            let isPermitted = TimetableEntry.permitCommandOrMakeDue(
                &lives[key],
                from: beganAtMilliseconds,
                showing: stateVersion,
                nextClaimAtMilliseconds: nextClaimAtMilliseconds
            )
            return StoreReply(isPermitted ? .retry : .superseded)
        default: break
        }
        switch call.subject.kind {
        case .activity: return performOnActivity(key, call.operation)
        case .device: return performOnDevice(key, call.operation)
        }
    }

    /// Deletes everything, as `FLUSHALL` does.
    public mutating func flushAll() {
        activities.removeAll()
        devices.removeAll()
        lives.removeAll()
    }

    private mutating func performOnActivity(
        _ key: String,
        _ operation: StoreCall<[UInt8]>.Operation
    ) -> StoreReply<[UInt8]> {
        var activity = findUnexpired(&activities, key) ?? ActivityState()
        let nowMilliseconds = self.nowMilliseconds
        let reply: StoreReply<[UInt8]>
        let expiryChange: ExpiryChange
        switch operation {
        case .admit(let admission): (reply, expiryChange) = activity.admit(admission, nowMilliseconds: nowMilliseconds)
        case .admitStart(let version, let claim, let previousClaim):
            (reply, expiryChange) = activity.admitStart(
                version,
                claim: claim,
                previousClaim: previousClaim,
                nowMilliseconds: nowMilliseconds
            )
        case .recordStart(let version):
            (reply, expiryChange) = activity.recordStart(version, nowMilliseconds: nowMilliseconds)
        case .hold(let version, let command, let hasAlert):
            (reply, expiryChange) = activity.hold(version, command, hasAlert: hasAlert)
        case .register(let registration, let allowsFrequentUpdates, let shownVersion, let source, let audiences):
            (reply, expiryChange) = activity.register(
                registration,
                allowsFrequentUpdates: allowsFrequentUpdates,
                shownVersion: shownVersion,
                source: source,
                audiences: audiences,
                nowMilliseconds: nowMilliseconds
            )
        case .unregister(let milliseconds, _):
            (reply, expiryChange) = activity.unregister(at: milliseconds, nowMilliseconds: nowMilliseconds)
        case .reopen(let version): (reply, expiryChange) = activity.reopen(version)
        case .confirmDepartures(let milliseconds): (reply, expiryChange) = activity.confirmDepartures(at: milliseconds)
        case .settle, .throttle, .retire:
            // If Redis stores nothing for the activity, a settlement does not change that.
            guard activity.expiresAtMilliseconds != nil else { return StoreReply(.settled) }
            (reply, expiryChange) = activity.settle(operation, nowMilliseconds: nowMilliseconds)
        case .takeStartToken, .holdStart, .registerDevice, .settleStart, .refundStart, .reportLifetimeEvent,
            .checkLifetime:
            preconditionFailure("an operation on a device or a lifetime")
        }
        if expiryChange == .renewed {
            activity.expiresAtMilliseconds = nowMilliseconds + StoreLimits.activityExpiryMilliseconds
        }
        if activity.expiresAtMilliseconds != nil { activities[key] = activity }
        return reply
    }

    private mutating func performOnDevice(
        _ key: String,
        _ operation: StoreCall<[UInt8]>.Operation
    ) -> StoreReply<[UInt8]> {
        var device = findUnexpired(&devices, key) ?? DeviceState()
        let nowMilliseconds = self.nowMilliseconds
        let reply: StoreReply<[UInt8]>
        let expiryChange: ExpiryChange
        switch operation {
        case .takeStartToken(let type, let startBudget, let registration):
            (reply, expiryChange) = device.takeStartToken(
                text(type),
                startBudget,
                registration,
                nowMilliseconds: nowMilliseconds
            )
        case .holdStart(let start, let command):
            (reply, expiryChange) = device.hold(
                start,
                command,
                startsMax: heldStartsMax,
                nowMilliseconds: nowMilliseconds
            )
        case .registerDevice(let type, let registration, let step, let isFromCommand):
            (reply, expiryChange) = device.register(
                text(type),
                registration,
                step,
                isFromCommand: isFromCommand,
                nowMilliseconds: nowMilliseconds
            )
        case .confirmDepartures(let milliseconds): (reply, expiryChange) = device.confirmDepartures(at: milliseconds)
        case .unregister(let milliseconds, let type):
            let onlyType = type.map(text)
            (reply, expiryChange) = device.unregister(
                device.registeredAttributesTypes.filter { onlyType == nil || $0 == onlyType },
                at: milliseconds,
                nowMilliseconds: nowMilliseconds
            )
        case .settleStart(let start, _, let retirement):
            (reply, expiryChange) = device.settle(start, retirement, nowMilliseconds: nowMilliseconds)
        case .refundStart(let startBudget, let drawIdentifier):
            (reply, expiryChange) = device.refundStart(
                startBudget,
                drawIdentifier: drawIdentifier,
                nowMilliseconds: nowMilliseconds
            )
        case .admit, .admitStart, .recordStart, .hold, .register, .retire, .settle, .throttle, .reopen,
            .reportLifetimeEvent, .checkLifetime:
            preconditionFailure("an operation on an activity")
        }
        if expiryChange == .renewed {
            device.expiresAtMilliseconds = nowMilliseconds + StoreLimits.deviceExpiryMilliseconds
        }
        if device.expiresAtMilliseconds != nil { devices[key] = device }
        return reply
    }

    /// Returns what is stored under the key; nil if nothing is. If what is stored has expired, removes it and returns
    /// nil.
    private func findUnexpired<State: ExpiringState>(_ states: inout [String: State], _ key: String) -> State? {
        guard let stored = states[key] else { return nil }
        if let expiresAtMilliseconds = stored.expiresAtMilliseconds, expiresAtMilliseconds > nowMilliseconds {
            return stored
        }
        states[key] = nil
        return nil
    }
}

/// Whether an operation renewed the expiry of the activity's or device's key.
enum ExpiryChange {
    case unchanged
    case renewed
}

protocol ExpiringState {
    /// When the key expires, server milliseconds; nil if nothing is stored under the key.
    var expiresAtMilliseconds: Int64? { get set }
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
