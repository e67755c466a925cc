import LiveActivity

/// Stores the attempts of a push and APNs' responses in its record.
extension RecordSlot {
    @inline(__always) var pool: PoolTarget { PoolTarget(appIndex: appIndex, environment: token.environment) }

    /// Whether an admitted push expired while it waited for a stream or for a retry. A state whose command names no
    /// expiration waits until it is too old to change what a phone shows, even after its stale date. The policy's times
    /// say only how long APNs stores it (`setSentExpiration`). (R18)
    @inline(__always)
    func isPushExpired(now: Moment) -> Bool {
        AgeRules.stateExpirationSeconds(
            timestamp: version.timestamp,
            isEnd: event == .end,
            ownExpirationSeconds: expirationSeconds
        ) < now.wallSeconds
    }

    /// Sets the expiration that APNs gets, for a push that is sent now. The first of these rules that applies decides:
    /// - A push whose command has an expiration of its own keeps this expiration.
    /// - An update with a stale date in the future expires at that date, but at most
    ///   ``AgeRules/updateAgeSecondsMax`` from now.
    /// - Any other push expires after the policy's time for its event, counted from now.
    mutating func setSentExpiration(by policy: PolicyTable.CompactPolicy, now: Moment) {
        let nowSeconds = now.wallSeconds
        push.sentExpirationSeconds =
            switch event {
            case _ where hasExpiration: expirationSeconds
            case .start: preconditionFailure("a start has an expiration")
            case .update where staleDateSeconds > nowSeconds:
                min(staleDateSeconds, nowSeconds + AgeRules.updateAgeSecondsMax)
            case .update: nowSeconds + policy.updateExpirationSeconds
            case .end: nowSeconds + policy.endExpirationSeconds
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

    /// Returns the reason that Causeway gives if APNs named none; empty for an accepted push about which there is
    /// nothing to say.
    private func causewayReason(_ result: PushResult) -> StaticString {
        switch result.disposition {
        case .accepted: alert.wasRemovedByAge ? "alertExpired" : alert.heldStatus == .doesNotFit ? "alertDidNotFit" : ""
        case .ambiguous: "noResponse"
        case .retrySoon where result.status == 0: "notProcessed"
        case .rejected where result.status == 0: "malformedPush"
        default: "noReason"
        }
    }

    /// Notes how Redis must retire a token that APNs calls dead or does not know.
    ///
    /// - Returns: false, without a change, if APNs says since when the token is dead, and the token was registered at
    ///   that time or later: perhaps APNs does not know this registration yet. (R17)
    mutating func planTokenRetirement(_ result: PushResult, now: Moment) -> Bool {
        guard let invalidAtWallMilliseconds = result.invalidAtWallMilliseconds else {
            push.tokenRetirementRule = .unconditional(handledAtWallMilliseconds: now.wallMilliseconds)
            return true
        }
        let mayTokenBeValid = RegistrationTime.isRegistered(
            token.registeredAtWallMilliseconds,
            sinceInvalidAt: invalidAtWallMilliseconds,
            nowMilliseconds: now.wallMilliseconds
        )
        guard !mayTokenBeValid else { return false }
        push.tokenRetirementRule = .unlessRegisteredSince(wallMilliseconds: invalidAtWallMilliseconds)
        return true
    }
}
