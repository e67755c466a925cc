import LiveActivity

/// Handles reread records: they were settled, and are read once more because Redis lost what they wrote. Their tokens,
/// versions and held states are written to Redis again. (R25)
///
/// - A state is sent again, without its alert, if Redis cannot know that the phone displays it. (An alert rings only
///   once.)
/// - A start is not sent, because it may have been sent before, and could begin a second activity. Usually it tells
///   Redis its version (`recordStart`). Otherwise a reread end of the earlier life could end the new life.
/// - A held command that a reread registration releases counts as reread too: Redis held it before the loss, and the
///   registration has already released it once. Exception: the command is newer than the registration.
extension Delivery {
    /// Settles a record without a result and without any other action: a reread record, or a record of the
    /// registrations topic that is too old.
    mutating func settleWithoutAction(_ record: RecordIndex) {
        records.enter(record, .finished)
        continueAfterAcknowledgements(record)
    }

    /// Removes the alert of a reread command, if it has one, because it must not ring again (R25).
    mutating func removeAlert(ofRereadRecord record: RecordIndex) {
        guard records[record].hasAlert else { return }
        records.removeAlert(fromBodyOf: record)
        records[record].priority = records[record].priorityWithoutAlert
    }
}

extension Registration {
    /// Whether the registration is too old to be of use (`AgeRules.isRegistrationExpired`).
    ///
    /// - Parameter recordTimestampMilliseconds: Kafka's timestamp of the record; -1: none.
    func isTooOld(recordTimestampMilliseconds: Int64, now: Moment) -> Bool {
        let isPushToStart = if case .pushToStart = kind { true } else { false }
        return AgeRules.isRegistrationExpired(
            registeredAtWallMilliseconds: max(registeredAtMilliseconds, recordTimestampMilliseconds),
            isPushToStart: isPushToStart,
            nowWallMilliseconds: now.wallMilliseconds
        )
    }
}

extension RecordSlot {
    /// Whether this tombstone was too old at its receipt to unregister the token of an activity or, with
    /// `isPushToStart`, of a device. (`AgeRules.isRegistrationExpired`)
    func isTooOldToUnregister(isPushToStart: Bool) -> Bool {
        AgeRules.isRegistrationExpired(
            registeredAtWallMilliseconds: times.recordAtWallMilliseconds,
            isPushToStart: isPushToStart,
            nowWallMilliseconds: times.receivedAtWallMilliseconds
        )
    }
}
