import LiveActivity

/// The store's side of the core: calls go out in order, and a call that failed in passing goes out again (repeating each is safe).
extension Delivery {
    public mutating func storeCallTaken() {
        precondition(storeQueue.removeFirst() != nil, "no call waits")
    }

    /// The next call does not fit the store's limits, and never will.
    public mutating func storeCallRefused(_ reason: StaticString, now: Moment) {
        guard let ticket = storeQueue.removeFirst() else { preconditionFailure("no call waits") }
        refused(
            ticket,
            reason: UnsafeRawBufferPointer(start: reason.utf8Start, count: reason.utf8CodeUnitCount),
            now: now
        )
    }

    /// The next call cannot be made now, though others can: it goes behind them.
    public mutating func storeCallPostponed() { storeQueue.moveFirstToEnd() }

    /// A call has no reply, or was refused.
    ///
    /// - Parameter reason: for the result of a command that fails by it.
    public mutating func storeFailed(
        tag: UInt64,
        _ failure: StoreFailure,
        reason: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        let ticket = ticket(tag)
        switch failure {
        case .unanswered: repeatCall(ticket)
        case .busy:
            storeQueue.pause(now: now)
            repeatCall(ticket)
        case .refused: refused(ticket, reason: reason, now: now)
        }
    }

    private func ticket(_ tag: UInt64) -> StoreTicket {
        guard let ticket = StoreTicket(tag: tag) else { preconditionFailure("the tag of a call that was not made") }
        return ticket
    }

    private mutating func repeatCall(_ ticket: StoreTicket) {
        // A draw may have been refunded already: one start too few is better than one too many.
        if ticket.purpose == .refundStart { return acknowledge(ticket.record) }
        storeQueue.append(ticket)
    }

    /// A repetition does not help. The command fails, with `reason`; a call that only keeps records up to date is dropped.
    private mutating func refused(_ ticket: StoreTicket, reason: UnsafeRawBufferPointer, now: Moment) {
        let record = ticket.record
        if ticket.purpose.isAwaited { recordsAwaitingStore -= 1 }
        acknowledge(record)
        switch ticket.purpose {
        case .address, .admit, .hold:
            records[record].setReason(reason)
            finishCurrent(record, .failed, now: now)
        case .register where records[record].stage == .current:
            registeredOvertaken(record, overtakenByHeld: false, now: now)
        case .register: settleWithoutResult(record)
        case .unregisterActivity, .unregisterDevice: unregistered(record)
        case .limit: limited(record, now: now)
        case .settle, .settleDevice, .refundStart: break
        }
    }

    /// The store replied. The call is no longer outstanding when its reply is acted upon, so that the reply may free the record.
    public mutating func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>, now: Moment) {
        let ticket = ticket(tag)
        let record = ticket.record
        if ticket.purpose.isAwaited { recordsAwaitingStore -= 1 }
        acknowledge(record)
        switch ticket.purpose {
        case .address: addressed(record, reply, now: now)
        case .admit: admitted(record, reply, now: now)
        case .hold: held(record, reply, now: now)
        case .register: registered(record, reply, now: now)
        case .unregisterActivity, .unregisterDevice: unregistered(record)
        case .limit: limited(record, now: now)
        case .settle, .settleDevice, .refundStart: break
        }
    }

    /// A tombstone is done with the last of its calls.
    private mutating func unregistered(_ record: UInt32) {
        if records[record].acknowledgementsOutstanding == 0 { settleWithoutResult(record) }
    }

    mutating func call(_ purpose: StoreTicket.Purpose, _ record: UInt32, application: UInt16? = nil) {
        records[record].acknowledgementsOutstanding += 1
        if purpose.isAwaited { recordsAwaitingStore += 1 }
        storeQueue.append(
            StoreTicket(purpose, application: application ?? records[record].application, record: record)
        )
    }
}
