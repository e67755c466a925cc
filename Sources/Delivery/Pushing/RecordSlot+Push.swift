import LiveActivity

/// What a push's attempts and answers leave in its record.
extension RecordSlot {
    @inline(__always) var pool: PoolIndex { PoolIndex(application: application, environment: environment) }

    /// Whether an admitted push has waited for the service for longer than it is good for: a state by default from its receipt on; what is
    /// sent in time is then stored by APNs from its sending on.
    @inline(__always)
    func isPushExpired(by policies: PolicyTable, now: Moment) -> Bool {
        guard expiration < 0 else { return expiration < now.wallSeconds }
        // No default is shorter than this, and nearly every push goes within it.
        guard now.wallMilliseconds - receivedMilliseconds > 1_000 else { return false }
        return expirationSeconds(by: policies[policy], from: receivedMilliseconds / 1_000) < now.wallSeconds
    }

    mutating func setSentExpiration(by policy: PolicyTable.Numbers, now: Moment) {
        sentExpiration = expirationSeconds(by: policy, from: now.wallSeconds)
    }

    /// The command's own expiration, or by default the policy's, counted from `seconds`; by default, an update expires at its stale date.
    private func expirationSeconds(by policy: PolicyTable.Numbers, from seconds: Int64) -> Int64 {
        switch event {
        case _ where expiration >= 0: expiration
        case .start: preconditionFailure("a start has an expiration")
        case .update where staleDate > seconds: min(staleDate, seconds + AgeRules.updateSecondsMost)
        case .update: seconds + policy.updateSeconds
        case .end: seconds + policy.endSeconds
        }
    }

    /// The push is handed out. Attempts have no limit; beyond what can be counted they are not.
    mutating func noteAttempt() { if attempts < .max { attempts += 1 } }

    /// The push that was handed out found no stream.
    mutating func takeBackAttempt() { attempts -= 1 }

    mutating func noteAnswer(_ result: PushResult) {
        status = result.status
        connection = result.connection
        setReason(result.reason)
        if result.reason.isEmpty { setReason(ownReason(result)) }
        if result.sentMilliseconds >= 0 { sentMilliseconds = result.sentMilliseconds }
        answeredMilliseconds = result.answeredMilliseconds
    }

    /// What a result says where APNs named no reason.
    private func ownReason(_ result: PushResult) -> StaticString {
        switch result.disposition {
        case .accepted: isAlertExpired ? "alertExpired" : heldAlert == .doesNotFit ? "alertDidNotFit" : ""
        case .ambiguous: "noAnswer"
        case .retryNow where result.status == 0: "notProcessed"
        case .rejected where result.status == 0: "malformedPush"
        default: "noReason"
        }
    }

    /// APNs calls the token dead.
    /// - Returns: false if the token was registered after the time from which it is dead.
    mutating func noteRefusedToken(_ result: PushResult, now: Moment) -> Bool {
        let hasTime = result.invalidAtMilliseconds >= 0
        guard !hasTime || registeredAtMilliseconds < result.invalidAtMilliseconds else { return false }
        invalidAtMilliseconds = hasTime ? result.invalidAtMilliseconds : now.wallMilliseconds
        tokenRefusal = hasTime ? .unlessRegisteredSince : .unconditional
        return true
    }
}
