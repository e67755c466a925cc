import LiveActivity

/// Stores the attempts of a push and APNs' responses in its record.
extension RecordSlot {
    @inline(__always) var pool: PoolIdentifier { PoolIdentifier(appIndex: appIndex, environment: token.environment) }

    /// Whether an admitted push expired while it waited for a stream or for a retry. If the command names no
    /// expiration, it expires some time after its receipt (`expirationSeconds`). The expiration that APNs gets counts
    /// from the sending instead (`setSentExpiration`).
    @inline(__always)
    func isPushExpired(by policies: PolicyTable, now: Moment) -> Bool {
        guard !hasOwnExpiration else { return ownExpirationSeconds < now.wallSeconds }
        // The fast path: every policy's expiration is at least 1 s, and nearly every push is sent within this time.
        guard now.wallMilliseconds - times.receivedAtWallMilliseconds > 1_000 else { return false }
        return expirationSeconds(by: policies[policyIndex], from: times.receivedAtWallMilliseconds / 1_000)
            < now.wallSeconds
    }

    /// Sets the expiration that APNs gets, for a push that is sent now.
    mutating func setSentExpiration(by policy: PolicyTable.CompactPolicy, now: Moment) {
        push.sentExpirationSeconds = expirationSeconds(by: policy, from: now.wallSeconds)
    }

    /// Returns when a push expires, UNIX seconds, by the first of these rules that applies:
    /// - A push with an expiration of its own expires then.
    /// - An update with a stale date later than `seconds` expires at that date, but at most
    ///   ``AgeRules/updateAgeSecondsMax`` after `seconds`.
    /// - Any other push expires when its policy's time for the event has passed since `seconds`.
    /// - Parameter seconds: the UNIX time of the command's receipt, or of the sending.
    private func expirationSeconds(by policy: PolicyTable.CompactPolicy, from seconds: Int64) -> Int64 {
        switch event {
        case _ where hasOwnExpiration: ownExpirationSeconds
        case .start: preconditionFailure("a start has an expiration")
        case .update where staleDateSeconds > seconds: min(staleDateSeconds, seconds + AgeRules.updateAgeSecondsMax)
        case .update: seconds + policy.updateSeconds
        case .end: seconds + policy.endSeconds
        }
    }

    /// Counts an attempt. A push may have any number of attempts, but the counter stops at its maximum.
    mutating func countAttempt() { if push.attemptCount < .max { push.attemptCount += 1 } }

    /// Undoes `countAttempt`, because no stream took the push.
    mutating func undoCountAttempt() { push.attemptCount -= 1 }

    /// Stores what the result needs of APNs' response, and the connection that the next attempt avoids.
    mutating func noteResponse(_ result: PushResult) {
        push.httpStatus = result.status == 0 ? nil : result.status
        push.avoidedConnectionNumber = result.connectionNumber ?? 0
        setReason(result.reason)
        if result.reason.isEmpty { setReason(causewayReason(result)) }
        if let sentAtWallMilliseconds = result.sentAtWallMilliseconds {
            times.sentAtWallMilliseconds = sentAtWallMilliseconds
        }
        times.responseAtWallMilliseconds = result.responseAtWallMilliseconds
    }

    /// Returns Causeway's own reason for the result, if APNs named none.
    private func causewayReason(_ result: PushResult) -> StaticString {
        switch result.disposition {
        case .accepted: alert.isExpired ? "alertExpired" : alert.heldStatus == .doesNotFit ? "alertDidNotFit" : ""
        case .ambiguous: "noResponse"
        case .retrySoon where result.status == 0: "notProcessed"
        case .rejected where result.status == 0: "malformedPush"
        default: "noReason"
        }
    }

    /// Notes how Redis must retire a token that APNs calls dead or does not know. APNs may say since when the token is
    /// dead. If the token was registered then or later, returns false and notes nothing: perhaps APNs does not know
    /// this registration yet. (R17)
    mutating func planTokenRetirement(_ result: PushResult, now: Moment) -> Bool {
        guard let invalidAtWallMilliseconds = result.invalidAtWallMilliseconds else {
            push.tokenRetirementRule = .unconditional(handledAtWallMilliseconds: now.wallMilliseconds)
            return true
        }
        let isRegisteredSince = RegistrationTime.isRegistered(
            token.registeredAtWallMilliseconds,
            sinceInvalidAt: invalidAtWallMilliseconds,
            nowMilliseconds: now.wallMilliseconds
        )
        guard !isRegisteredSince else { return false }
        push.tokenRetirementRule = .unlessRegisteredSince(wallMilliseconds: invalidAtWallMilliseconds)
        return true
    }
}
