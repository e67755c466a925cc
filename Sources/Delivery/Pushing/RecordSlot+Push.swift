import LiveActivity

/// What a push's attempts and answers leave in its record.
extension RecordSlot {
    @inline(__always) var pool: PoolIndex { PoolIndex(application: application, environment: environment) }

    /// A start's default expiration holds from its admission on, since a late start is worse than none; a state's only from its sending on.
    @inline(__always)
    func isPushExpired(now: Moment) -> Bool {
        isStart ? sentExpiration < now.wallSeconds : isExpired(now: now)
    }

    /// The command's own expiration, or by default the policy's; by default, an update expires at its stale date.
    mutating func setSentExpiration(by policy: PolicyTable.Numbers, now: Moment) {
        let seconds = now.wallSeconds
        sentExpiration =
            switch event {
            case _ where expiration >= 0: expiration
            case .start: seconds + policy.startSeconds
            case .update where staleDate > seconds: min(staleDate, seconds + PolicyTable.updateSecondsMost)
            case .update: seconds + policy.updateSeconds
            case .end: seconds + policy.endSeconds
            }
    }

    /// The push is handed out.
    mutating func noteAttempt(now: Moment) {
        attempts += 1
        sentMilliseconds = now.wallMilliseconds
    }

    /// The push that was handed out found no stream.
    mutating func takeBackAttempt(sentMilliseconds previous: Int64) {
        attempts -= 1
        sentMilliseconds = previous
    }

    mutating func noteAnswer(_ result: PushResult) {
        status = result.status
        connection = result.connection
        setReason(result.reason)
        if result.reason.isEmpty, heldAlert == .doesNotFit { setReason("alertDidNotFit") }
        if result.sentMilliseconds >= 0 { sentMilliseconds = result.sentMilliseconds }
        answeredMilliseconds = result.answeredMilliseconds
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
