import LiveActivity

/// What a token was refused with is held for the next one.
extension Delivery {
    /// A dead token is retired, unless it was registered after the time from which APNs calls it dead: then APNs may not know yet, and the
    /// push waits. An update or an end is held, with its alert. A start is not: Redis has allowed it once.
    mutating func tokenRefused(_ record: UInt32, of activity: UInt32, _ result: PushResult, now: Moment) {
        guard records[record].noteRefusedToken(result, now: now) else {
            return retry(record, of: activity, .retryLater, isPermitted: result.retryPermitted, now: now)
        }
        activities[activity].forgetServiceFaults()
        produce(.invalidation, record)
        if records[record].isStart { return finishCurrent(record, .unregistered, settlement: .notShown, now: now) }
        activities.enter(.retiring, activity)
        call(.retire, record)
    }

    /// Redis knows that the token is dead, and its invalidation is written: nothing needs the token any more, and another may take its
    /// place in the record.
    mutating func holdForNextToken(_ record: UInt32) {
        let activity = activity(ofCurrent: record, in: .retiring)
        records[record].tokenRefusal = .none
        records[record].suppliesToken = false
        hold(record, of: activity)
    }
}
