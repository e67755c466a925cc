import LiveActivity

/// What the store's replies leave in a record.
extension RecordSlot {
    /// Whether the command asks for its device's token first. A start that has drawn on its device's budget keeps the draw and
    /// the token that came with it.
    @inline(__always)
    var needsAddress: Bool {
        if case .drawn = startDraw { return false }
        return isStart
    }

    /// Notes that the device's budget is empty. The start waits for the budget until it expires.
    /// - Returns: how long it waits before it asks again, in milliseconds.
    mutating func awaitStartBudget(milliseconds: Int64, by policy: PolicyTable.Numbers, now: Moment) -> Int64 {
        startDraw = .awaited
        let expiresInMilliseconds = (expiration + 1) * 1_000 - now.wallMilliseconds
        return max(1, min(milliseconds, policy.startIntervalMilliseconds, expiresInMilliseconds))
    }

    /// Refunds the draw on the device's budget of a start that is not sent after all (not admitted, expired, or overtaken while
    /// it waited for a stream): no phone has counted it. A start that was handed to a stream keeps its draw, whatever its outcome
    /// is.
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
    /// Takes the token that the store names. If it names none, the record has none.
    mutating func setAddress(of record: UInt32, to registration: TokenRegistration<UnsafeRawBufferPointer>?) {
        guard let registration else { return setToken(of: record, .init(start: nil, count: 0)) }
        setToken(of: record, registration.token)
        self[record].environment = registration.environment
        self[record].registeredAtMilliseconds = registration.registeredAtMilliseconds
    }
}
