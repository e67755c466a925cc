import LiveActivity

/// Removes alerts that are too old to ring. The state is sent without its alert, and the result says so. The age of an
/// alert counts from its own command, not from the state that carries it.
///
/// An alert is checked twice:
/// - When the turn of its command or carrier comes: before the admission, because digest, priority and budget depend on
///   the alert.
/// - When the push is sent, because the push may have waited for a stream or for a retry.
///
/// There is no earlier check, which would cost results in a backlog: a rider with an old alert needs a result of its
/// own, but most carriers are replaced before their turn, and their riders are then only counted.
extension Delivery {
    /// Removes the alert that a record would be sent with, if it is too old. If it is the rider's alert, the rider is
    /// finished.
    mutating func removeAlertIfOld(of record: RecordIndex, now: Moment) {
        guard records[record].hasAlert, let alert = records.alertVersion(of: record),
            isAlertTooOld(alert, on: record, now: now)
        else { return }
        let bodyAlert = records[record].bodyAlertVersion
        if let rider = records.removeRider(of: record) {
            records[rider].setReason("alertExpired")
            finish(rider, .superseded)
            // If the body has another alert, it is older than the rider's, and so it is too old as well.
            if bodyAlert != nil, bodyAlert != alert { records[record].setAlertExpired() }
        } else {
            records[record].setAlertExpired()
        }
        if bodyAlert != nil { records.removeAlert(fromBodyOf: record) }
        records[record].priority = records[record].priorityWithoutAlert
    }

    /// Whether an alert is too old to be sent with this record. The record's policy says how old an alert may be.
    func isAlertTooOld(_ alert: Version, on record: RecordIndex, now: Moment) -> Bool {
        AgeRules.isAlertTooOld(
            timestamp: alert.timestamp,
            alertAgeSecondsMax: policies[records[record].policyIndex].alertAgeSecondsMax,
            nowSeconds: now.wallSeconds
        )
    }
}

extension RecordSlot {
    /// Notes that an alert was removed because of its age. The result says so.
    mutating func setAlertExpired() {
        alert.wasRemovedByAge = true
        setReason("alertExpired")
    }
}
