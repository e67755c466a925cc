import LiveActivity

/// What the store's replies leave in a record.
extension RecordSlot {
    /// A start that has drawn on its device's budget keeps the draw, and the token that came with it.
    @inline(__always)
    var needsAddress: Bool {
        if case .drawn = startDraw { return false }
        return isStart
    }

    /// The device's budget is empty: the start waits for it until it expires.
    /// - Returns: how long it waits before it asks again.
    mutating func awaitStartBudget(milliseconds: Int64, by policy: PolicyTable.Numbers, now: Moment) -> Int64 {
        startDraw = .awaited
        let expiresInMilliseconds = (expiration + 1) * 1_000 - now.wallMilliseconds
        return max(1, min(milliseconds, policy.startIntervalMilliseconds, expiresInMilliseconds))
    }

    /// A start that is not sent after all (not admitted, expired or overtaken while it waited for a stream) refunds its draw on the
    /// device's budget (design §4): no phone has counted it. A start that was tried keeps its draw, whatever its outcome.
    /// - Returns: false if there is nothing to refund.
    mutating func refundDraw() -> Bool {
        guard case .drawn(let draw) = startDraw, attempts == 0 else { return false }
        startDraw = .refunded(draw)
        return true
    }

    /// Takes the priority that the activity's budget allows.
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
    /// Takes the token that the store names; without one the record has none.
    mutating func setAddress(of record: UInt32, to registration: TokenRegistration<UnsafeRawBufferPointer>?) {
        guard let registration else { return setToken(of: record, .init(start: nil, count: 0)) }
        setToken(of: record, registration.token)
        self[record].environment = registration.environment
        self[record].registeredAtMilliseconds = registration.registeredAtMilliseconds
    }
}
