import LiveActivity

/// Records that were settled and are read again, because the store lost what they wrote.
///
/// They tell the store again what it knew: tokens, newest versions, held states. A state that the store cannot know to be
/// displayed is sent again. But an alert rings only once, so the state goes without it. A start is passed over: nobody knows any
/// more whether it was sent, and a second one would begin a second activity.
extension Delivery {
    /// Settles a record without a result and without any action. It had its result before.
    mutating func settleWithoutAction(_ record: UInt32) {
        records.enter(.finished, record)
        acknowledged(record)
    }

    mutating func removeAlertReadAgain(of record: UInt32) {
        guard records[record].hasAlert else { return }
        records.removeAlert(fromBodyOf: record)
        records[record].priority = records[record].statePriority
    }
}

extension Outcome {
    /// Whether a settled record may get this outcome again without anything having happened.
    var mayRepeatAfterSettlement: Bool {
        switch self {
        case .superseded, .duplicate, .unchanged, .ended, .expired, .invalid: true
        case .accepted, .held, .failed, .unregistered, .unknown: false
        }
    }
}

extension Registration {
    func isOver(now: Moment) -> Bool {
        let isPushToStart = if case .pushToStart = kind { true } else { false }
        return AgeRules.isRegistrationOver(
            registeredAtMilliseconds: registeredAtMilliseconds,
            isPushToStart: isPushToStart,
            nowMilliseconds: now.wallMilliseconds
        )
    }
}
