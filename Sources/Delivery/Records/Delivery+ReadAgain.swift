import LiveActivity

/// Records that were settled and are read once more, since the store has lost what they wrote.
///
/// They tell the store what it knew: tokens, newest versions, states that were held. A state that the store cannot know to be shown is sent
/// again. But an alert rings once, and whether a start was sent is known to nobody any more: it would begin a second activity.
extension Delivery {
    /// Settles a record, of which nothing is to be done, without a result: it had one.
    mutating func passOver(_ record: UInt32) {
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
    /// A record that was settled may come to it again without anything having happened.
    var isKnownOfSettled: Bool {
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
