import ActivityStore
import Delivery
import LiveActivity

/// Decides what a worker would do with a command if it read the command now. Ages follow the core's rules
/// (``AgeRules``).
///
/// The decider does no I/O: the caller passes the state in Redis, and the model of the scripts decides instead of
/// Redis.
struct ReplayDecider {
    /// The time by this machine's clock, for the ages of commands.
    var nowMilliseconds: Int64
    /// The time by Redis' clock, for the ages of activities.
    var redisNowMilliseconds: Int64
    /// Whether the user allows the replay to send starts.
    var includesStarts: Bool
    /// Whether any policy starts activities again after their lifetime. If so, an end is sent even if the activity's
    /// newest start is newer, because Causeway itself may have made this start (R13).
    var restartsActivities: Bool

    var nowSeconds: Int64 { nowMilliseconds / 1_000 }

    /// Returns the verdict on an update or an end.
    ///
    /// - Parameters:
    ///   - command: decoded from `record`.
    ///   - recordTimestampMilliseconds: Kafka's timestamp of `record`.
    ///   - followsStart: whether a start of the activity is sent before this command.
    func verdict(
        on command: Command,
        of record: UnsafeRawBufferPointer,
        recordTimestampMilliseconds: Int64,
        policy: Policy,
        activity: ActivityState,
        followsStart: Bool = false
    ) -> ReplayVerdict {
        if AgeRules.isExpired(command.expirationSeconds, nowSeconds: nowSeconds) {
            return ReplayVerdict(reason: .expired)
        }
        let dropsAlert = isAlertTooOld(command, policy)
        let admission = Self.admission(
            of: command,
            record,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            pace: policy.pace,
            dropsAlert: dropsAlert,
            restartsActivities: restartsActivities,
            nowSeconds: nowSeconds
        )
        var (state, sendReason) = (activity, ReplayReason.send)
        if activity.newestVersion == command.version, activity.newestIsEnd == admission.isEnd {
            switch activity.versionPhase {
            case .notShown where activity.start?.version != command.version:
                (state, sendReason) = (activity.reopened(command.version), .sendAgain)
            case .waiting, .sending, .startSending: return ReplayVerdict(reason: .underWay)
            case .held where activity.token == nil && admission.registration == nil: return ReplayVerdict(reason: .held)
            case .held, .settled, .notShown: break
            }
        }
        let storeVerdict = state.verdict(on: admission, nowMilliseconds: redisNowMilliseconds)
        var reason = storeVerdict.forReplay.reason
        // A worker adds the held alert to the command, but only if there is a token.
        if storeVerdict == .alertHeld, state.token == nil { reason = .tokenUnknown }
        if reason == .send { reason = sendReason }
        if reason == .tokenUnknown, followsStart { reason = .send }
        // The worker would admit this command, and then not send it (`RecordSlot.isPushExpired`).
        if reason.leadsToSending, admission.isTooOld, command.expirationSeconds < 0 { reason = .expired }
        return ReplayVerdict(reason: reason, dropsAlert: dropsAlert && reason.leadsToSending)
    }

    /// Returns the reason to send a start, or to leave it out.
    ///
    /// - Parameter hasToken: whether Redis or the command has a push-to-start token of the device.
    func startReason(
        for command: Command,
        policy: Policy,
        activity: ActivityState,
        hasToken: Bool
    ) -> ReplayReason {
        guard includesStarts else { return .startLeftOut }
        let expirationSeconds = AgeRules.startExpirationSeconds(
            timestamp: command.version.timestamp,
            ownExpirationSeconds: command.expirationSeconds,
            startAgeSecondsMax: policy.expiration.startSeconds
        )
        if AgeRules.isExpired(expirationSeconds, nowSeconds: nowSeconds) { return .startTooOld }
        let storeVerdict = activity.verdict(onStart: command.version, nowMilliseconds: redisNowMilliseconds)
        if storeVerdict == .send { return hasToken ? .send : .tokenUnknown }
        // A verdict other than `send` and `superseded` is `duplicate` or `unknown`: the start is settled, or another
        // record may have sent it.
        return storeVerdict == .superseded ? .superseded : .duplicate
    }

    /// Whether the command has an alert that is too old to ring. The command is then sent without the alert.
    func isAlertTooOld(_ command: Command, _ policy: Policy) -> Bool {
        command.hasAlert
            && AgeRules.isAlertTooOld(
                timestamp: command.version.timestamp,
                alertAgeSecondsMax: policy.expiration.alertSeconds,
                nowSeconds: nowSeconds
            )
    }

    /// Makes the admission that a worker would request from Redis, but draws nothing from the budget, because a replay
    /// itself sends no push.
    static func admission(
        of command: Command,
        _ record: UnsafeRawBufferPointer,
        recordTimestampMilliseconds: Int64,
        pace: Policy.Pace,
        dropsAlert: Bool,
        restartsActivities: Bool,
        nowSeconds: Int64
    ) -> StateAdmission<[UInt8]> {
        let isEnd = command.event == .end
        return StateAdmission(
            isEnd: isEnd,
            version: command.version,
            digest: digest(of: command, record, dropsAlert: dropsAlert),
            pace: pace,
            requestsHighPriority: false,
            mayUseReserve: false,
            mayReplaceHeldAlert: command.hasAlert && !dropsAlert,
            isTooOld: AgeRules.isStateTooOld(
                timestamp: command.version.timestamp,
                isEnd: isEnd,
                nowSeconds: nowSeconds
            ),
            endsNewerLife: isEnd && restartsActivities,
            registration: command.environment.map {
                TokenRegistration(
                    token: command.token.bytes(in: record),
                    environment: $0,
                    registeredAtMilliseconds: max(0, recordTimestampMilliseconds)
                )
            }
        )
    }

    /// Returns the digest of the content that the activity would show after the command.
    static func digest(of command: Command, _ record: UnsafeRawBufferPointer, dropsAlert: Bool) -> UInt64 {
        withUnsafeTemporaryAllocation(byteCount: command.bodyByteCount * 2, alignment: 1) { memory in
            let layout = PushBody.write(command, from: record, into: memory)
            let body = UnsafeRawBufferPointer(rebasing: memory[..<command.bodyByteCount])
            guard dropsAlert else { return PushBody.digest(body, layout) }
            let buffer = UnsafeMutableRawBufferPointer(rebasing: memory[command.bodyByteCount...])
            let layoutWithoutAlert = PushBody.writeWithoutAlert(body, layout, into: buffer)
            return PushBody.digest(UnsafeRawBufferPointer(buffer), layoutWithoutAlert)
        }
    }
}

extension AdmissionVerdict {
    /// What follows from the verdict on an update or an end: why `replay send` sends the command or leaves it out, and
    /// as what `replay rebuild` counts it.
    var forReplay: (reason: ReplayReason, counter: RebuildTally.Counter) {
        switch self {
        // `wait` means that a worker would wait for the pace. A rebuild sends nothing, so it does not wait.
        case .send, .wait: (.send, .statesWritten)
        case .noToken: (.tokenUnknown, .statesHeld)
        case .held: (.tokenUnknown, .statesKnown)
        case .alertHeld: (.send, .statesKnown)
        case .duplicate: (.duplicate, .statesKnown)
        case .unchanged: (.unchanged, .statesKnown)
        case .ended: (.ended, .statesKnown)
        case .activityOver: (.activityOver, .statesTooOld)
        case .expired: (.activityUnknown, .statesTooOld)
        case .superseded, .unknown, .alertAwaitsCarrier, .alertAlreadyAccepted, .departures:
            (.superseded, .statesKnown)
        }
    }
}
