import ActivityStore
import Audiences
import Delivery
import LiveActivity

/// Decides about commands to audiences.
///
/// The replay sends the newest command only if Redis does not know it. A known command has been fanned out, or a worker
/// will finish its fan-out. So the decider does not look at the members.
extension ReplayDecider {
    /// Returns the verdict on an update, an end or a start to an audience.
    ///
    /// - Parameter command: the command as decoded from `record`.
    func verdict(
        onAudienceCommand command: Command,
        of record: UnsafeRawBufferPointer,
        policy: Policy,
        audience: AudienceInspection
    ) -> ReplayVerdict {
        if let reason = exclusionReason(command, policy) { return ReplayVerdict(reason: reason) }
        let admission = Self.audienceAdmission(of: command, record, policy: policy)
        switch AudienceState(audience).verdict(on: admission, nowMilliseconds: redisNowMilliseconds) {
        case .send, .wait:
            // The command was admitted, and Redis does not yet know that it was fanned out.
            if audience.admittedVersion?.version == command.version { return ReplayVerdict(reason: .underWay) }
            let dropsAlert = command.event != .start && isAlertTooOld(command, policy)
            return ReplayVerdict(reason: .send, dropsAlert: dropsAlert)
        case .duplicate: return ReplayVerdict(reason: .duplicate)
        case .unchanged: return ReplayVerdict(reason: .unchanged)
        case .ended: return ReplayVerdict(reason: .ended)
        case .superseded: return ReplayVerdict(reason: .superseded)
        }
    }

    /// Returns why the replay leaves out the command, whatever Redis knows: the command has expired or is too old, or
    /// it is a start and the user has not allowed starts. Nil if there is no such reason.
    private func exclusionReason(_ command: Command, _ policy: Policy) -> ReplayReason? {
        guard command.event == .start else {
            if AgeRules.isExpired(command.expirationSeconds, nowSeconds: nowSeconds) { return .expired }
            let isEnd = command.event == .end
            return AgeRules.isStateTooOld(timestamp: command.version.timestamp, isEnd: isEnd, nowSeconds: nowSeconds)
                ? .audienceCommandTooOld : nil
        }
        guard includesStarts else { return .startLeftOut }
        let expirationSeconds = AgeRules.startExpirationSeconds(
            timestamp: command.version.timestamp,
            ownExpirationSeconds: command.expirationSeconds,
            startAgeSecondsMax: policy.expiration.startSeconds
        )
        return AgeRules.isExpired(expirationSeconds, nowSeconds: nowSeconds) ? .startTooOld : nil
    }

    /// Makes the admission that a worker would request from Redis, with two differences: it has a single range, and
    /// draws nothing from the budgets.
    static func audienceAdmission(
        of command: Command,
        _ record: UnsafeRawBufferPointer,
        policy: Policy
    ) -> AudienceAdmission<[UInt8]> {
        let isEnd = command.event == .end
        return AudienceAdmission(
            version: command.version,
            digest: digest(of: command, record, dropsAlert: false),
            pace: policy.pace,
            isEnd: isEnd,
            isStart: command.event == .start,
            requestsHighPriority: false,
            mayUseReserve: false,
            rangeCount: 1,
            body: joinerBody(of: command, record),
            expirationSeconds: AgeRules.stateExpirationSeconds(
                timestamp: command.version.timestamp,
                isEnd: isEnd,
                ownExpirationSeconds: command.expirationSeconds
            )
        )
    }

    /// Returns the body, without its alert, for pushes to members that join after the command. Redis stores this form.
    private static func joinerBody(of command: Command, _ record: UnsafeRawBufferPointer) -> [UInt8] {
        withUnsafeTemporaryAllocation(byteCount: command.bodyByteCount * 2, alignment: 1) { memory in
            let layout = PushBody.write(command, from: record, into: memory)
            let body = UnsafeRawBufferPointer(rebasing: memory[..<command.bodyByteCount])
            guard command.hasAlert else { return JoinerBody.storedBytes(body, layout) }
            let count = PushBody.byteCountWithoutAlert(body, layout)
            let buffer = UnsafeMutableRawBufferPointer(rebasing: memory[command.bodyByteCount...].prefix(count))
            let layoutWithoutAlert = PushBody.writeWithoutAlert(body, layout, into: buffer)
            return JoinerBody.storedBytes(UnsafeRawBufferPointer(buffer), layoutWithoutAlert)
        }
    }
}
