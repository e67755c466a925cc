import Redis

/// The scripts `admit` and `settle` over a dictionary: the same replies and the same contents as on a server.
///
/// The simulation runs it in place of Redis; a differential test holds it against a real server.
public struct ScriptModel: Sendable {
    public static let activityLifetimeMilliseconds: Int64 = 25 * 3_600_000
    public static let deviceLifetimeMilliseconds: Int64 = 90 * 24 * 3_600_000

    /// The server's clock, UNIX milliseconds; whoever runs the model moves it.
    public var nowMilliseconds: Int64
    /// Starts that are held for one token; the scripts have ``RedisConnection/heldStartsMax``.
    public var heldStartsMax = RedisConnection.heldStartsMax
    public internal(set) var activities: [String: ActivityState] = [:]
    public internal(set) var devices: [String: DeviceState] = [:]

    public init(nowMilliseconds: Int64) {
        self.nowMilliseconds = nowMilliseconds
    }

    /// `key` is any text that names the hash; activities and devices are kept apart.
    public mutating func admit(key: String, _ call: AdmitCall) -> ModelReply {
        switch call {
        case .start(let version, let claim):
            return onActivity(key) { activity, now in activity.start(version, claim: claim, now: now) }
        case .command(let event, let version, let digest, let pace, let request, let registration):
            let command = ActivityState.Command(
                isEnd: event == .end,
                version: version,
                digest: digest,
                pace: pace,
                request: request,
                registration: registration
            )
            return onActivity(key) { activity, now in activity.command(command, now: now) }
        case .hold(nil, _, let version, let command, let carriesAlert):
            return onActivity(key) { activity, _ in activity.hold(version, command, carriesAlert: carriesAlert) }
        case .hold(let type?, let activity, let version, let command, _):
            let start = DeviceState.Start(activity: activity, version: version, command: command)
            let startsMax = heldStartsMax
            return onDevice(key) { device, _ in device.hold(type, start, startsMax: startsMax) }
        case .register(nil, let registration, let frequentUpdates, let shows, _):
            return onActivity(key) { activity, now in
                activity.register(registration, frequentUpdates: frequentUpdates, shows: shows, now: now)
            }
        case .register(let type?, let registration, _, _, let after):
            return onDevice(key) { device, _ in device.register(type, registration, after: after) }
        case .unregister(nil, let at):
            return onActivity(key) { activity, _ in activity.unregister(at: at) }
        case .unregister(let type?, let at):
            return onDevice(key) { device, _ in device.unregister([type], at: at) }
        case .unregisterAll(let at):
            return onDevice(key) { device, _ in device.unregister(device.registeredTypes, at: at) }
        case .address(let type, let startBudget, let registration):
            return onDevice(key) { device, now in device.address(type, startBudget, registration, now: now) }
        }
    }

    /// True if the token was retired.
    public mutating func settle(key: String, _ call: SettleCall) -> Bool {
        if let type = call.attributesType {
            return live(&devices, key)?.expiresAtMilliseconds != nil
                && devices[key, default: .init()].settle(type, call)
        }
        guard var activity = live(&activities, key), activity.expiresAtMilliseconds != nil else { return false }
        let (isRetired, lifetime) = activity.settle(call, now: nowMilliseconds)
        if lifetime == .renewed { activity.expiresAtMilliseconds = nowMilliseconds + Self.activityLifetimeMilliseconds }
        activities[key] = activity
        return isRetired
    }

    /// Gives back what `address` drew for a start that came to nothing.
    public mutating func refundStart(key: String, startBudget: BucketNumbers, draw: Int64) {
        guard live(&devices, key)?.expiresAtMilliseconds != nil else { return }
        devices[key]?.refundStart(startBudget, draw: draw, now: nowMilliseconds)
    }

    /// FLUSHALL: the server has forgotten everything.
    public mutating func flushAll() {
        activities.removeAll()
        devices.removeAll()
    }

    private mutating func onActivity(
        _ key: String,
        _ operation: (inout ActivityState, Int64) -> (ModelReply, Lifetime)
    ) -> ModelReply {
        var activity = live(&activities, key) ?? ActivityState()
        let (reply, lifetime) = operation(&activity, nowMilliseconds)
        if lifetime == .renewed { activity.expiresAtMilliseconds = nowMilliseconds + Self.activityLifetimeMilliseconds }
        if activity.expiresAtMilliseconds != nil { activities[key] = activity }
        return reply
    }

    private mutating func onDevice(
        _ key: String,
        _ operation: (inout DeviceState, Int64) -> (ModelReply, Lifetime)
    ) -> ModelReply {
        var device = live(&devices, key) ?? DeviceState()
        let (reply, lifetime) = operation(&device, nowMilliseconds)
        if lifetime == .renewed { device.expiresAtMilliseconds = nowMilliseconds + Self.deviceLifetimeMilliseconds }
        if device.expiresAtMilliseconds != nil { devices[key] = device }
        return reply
    }

    private func live<State: ExpiringState>(_ states: inout [String: State], _ key: String) -> State? {
        guard let state = states[key] else { return nil }
        if let expiry = state.expiresAtMilliseconds, expiry > nowMilliseconds { return state }
        states[key] = nil
        return nil
    }
}

/// Whether an operation set the hash's time to live anew.
enum Lifetime {
    case unchanged
    case renewed
}

protocol ExpiringState {
    /// Nil: there is no such hash.
    var expiresAtMilliseconds: Int64? { get set }
}
