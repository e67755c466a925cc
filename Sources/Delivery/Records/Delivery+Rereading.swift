import LiveActivity

/// Handles reread records: they were settled, and are read once more because Redis lost what they wrote. Their tokens,
/// versions and held states are written to Redis again. (R25)
///
/// - A state is sent again, without its alert, if Redis cannot know that the phone displays it. (An alert rings only
///   once.)
/// - A start is not sent, because it may have been sent before, and could begin a second activity. Usually it tells
///   Redis its version (`recordStart`), so that an end of the earlier life, which may be reread too, does not end the
///   new life.
/// - What a reread registration releases is treated alike, if it is not newer than the registration. Then Redis held it
///   before the loss, and the registration has released it already.
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
