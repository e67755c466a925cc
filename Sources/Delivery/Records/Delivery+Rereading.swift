import LiveActivity

/// Handles reread records: they were settled, and are read once more because Redis lost what they wrote.
///
/// A reread record writes its token, its version or its held state to Redis again:
/// - A state is sent again if Redis cannot know that the phone displays it. This push has no alert, because an alert
///   rings only once.
/// - A start is not sent. It may have been sent before, and a second push could begin a second activity. The start only
///   tells Redis its version (`recordStart`). Otherwise an end of the earlier life could end the new life, because the
///   end may be reread too.
extension Delivery {
    /// Settles a reread record, without a result and without any other action.
    mutating func settleWithoutAction(_ record: RecordIndex) {
        records.enter(.finished, record)
        continueAfterAcknowledgements(record)
    }

    mutating func removeAlert(ofRereadRecord record: RecordIndex) {
        guard records[record].hasAlert else { return }
        records.removeAlert(fromBodyOf: record)
        records[record].priority = records[record].priorityWithoutAlert
    }
}

extension Registration {
    func isTooOld(now: Moment) -> Bool {
        let isPushToStart = if case .pushToStart = kind { true } else { false }
        return AgeRules.isRegistrationExpired(
            registeredAtMilliseconds: registeredAtMilliseconds,
            isPushToStart: isPushToStart,
            nowMilliseconds: now.wallMilliseconds
        )
    }
}
