import LiveActivity

/// Stores in a record what Redis replied.
extension RecordSlot {
    /// Whether the command is a start that must ask Redis for its device's token. After a draw on the device's budget,
    /// a start keeps the draw and the token that came with it, and need not ask again.
    @inline(__always)
    var needsStartToken: Bool {
        if case .drawn = start.draw { return false }
        return isStart
    }

    /// Notes that the device's budget is empty. The start waits until the budget may allow it, until the start expires,
    /// or for `startBudgetRecheckMillisecondsMax`, whichever is the shortest.
    ///
    /// - Returns: how long the start waits before it asks again or has expired, in milliseconds.
    mutating func beginStartBudgetWait(waitMilliseconds: Int64, by policy: PolicyTable.CompactPolicy, now: Moment)
        -> Int64
    {
        start.draw = .awaitingBudget
        let untilExpirationMilliseconds = (expirationSeconds + 1) * 1_000 - now.wallMilliseconds
        return max(1, min(waitMilliseconds, policy.startBudgetRecheckMillisecondsMax, untilExpirationMilliseconds))
    }

    /// Notes that the draw of a start is refunded if no push was attempted, because the phone has then counted no
    /// start. After an attempt only a deferral refunds the draw (`noteDrawRefundedForDeferral`).
    ///
    /// - Returns: whether there is such a draw: the caller must then queue the call `refundStart`.
    mutating func noteUnsentDrawRefunded() -> Bool {
        guard case .drawn(let identifier) = start.draw, push.attemptCount == 0 else { return false }
        start.draw = .refunded(identifier: identifier)
        return true
    }

    /// Stores what the activity's budget allows for this push: the priority, and how many more pushes.
    mutating func setPriorityDecision(from reply: StoreReply<UnsafeRawBufferPointer>) {
        push.priorityDecision = PriorityDecision(
            budgetLeft: reply.budgetLeft < 0 ? nil : Int32(clamping: reply.budgetLeft),
            priority: PushPriority.isValid(reply.priority) ? reply.priority : priority,
            isDemoted: reply.isDemoted
        )
    }
}

extension Records {
    /// Sets the token that Redis named. If Redis named none, the record has no token afterwards.
    mutating func setRegistration(of record: RecordIndex, to registration: TokenRegistration<UnsafeRawBufferPointer>?) {
        guard let registration else { return setToken(of: record, .init(start: nil, count: 0)) }
        setToken(of: record, registration.token)
        self[record].token.environment = registration.environment
        self[record].token.registeredAtWallMilliseconds = registration.registeredAtMilliseconds
    }
}
