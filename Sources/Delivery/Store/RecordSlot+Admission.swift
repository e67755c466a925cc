import LiveActivity

/// Stores in a record what Redis' replies say.
extension RecordSlot {
    /// Whether Redis must be asked for the token of the start's device. A start that has drawn on its
    /// device's budget keeps the draw and the token that came with it.
    @inline(__always)
    var needsTokenLookup: Bool {
        if case .drawn = startDraw { return false }
        return isStart
    }

    /// Notes that the device's budget is empty. The start waits for the budget until it expires.
    /// - Returns: how long the start waits before it asks again, in milliseconds.
    mutating func awaitStartBudget(milliseconds: Int64, by policy: PolicyTable.Numbers, now: Moment) -> Int64 {
        startDraw = .awaited
        let expiresInMilliseconds = (expiration + 1) * 1_000 - now.wallMilliseconds
        return max(1, min(milliseconds, policy.startIntervalMilliseconds, expiresInMilliseconds))
    }

    /// Marks the draw of a start as refunded if the start is not sent after all (not admitted, expired, or
    /// replaced while it waited for a stream), because no phone has counted it. A start that was passed to a
    /// stream keeps its draw, whatever its outcome is.
    /// - Returns: false if there is nothing to refund.
    mutating func refundDraw() -> Bool {
        guard case .drawn(let draw) = startDraw, attempts == 0 else { return false }
        startDraw = .refunded(draw)
        return true
    }

    /// Stores the priority that the activity's budget allows.
    mutating func allow(_ reply: StoreReply<UnsafeRawBufferPointer>) {
        let isKnown = reply.priority == 5 || reply.priority == 10
        allowance = Allowance(
            priority: isKnown ? reply.priority : priority,
            isDemoted: reply.isDemoted,
            budgetLeft: Int32(clamping: reply.budgetLeft)
        )
    }
}

extension Records {
    /// Sets the token that Redis named. If Redis named none, the record has no token.
    mutating func setAddress(of record: UInt32, to registration: TokenRegistration<UnsafeRawBufferPointer>?) {
        guard let registration else { return setToken(of: record, .init(start: nil, count: 0)) }
        setToken(of: record, registration.token)
        self[record].environment = registration.environment
        self[record].registeredAtMilliseconds = registration.registeredAtMilliseconds
    }
}
