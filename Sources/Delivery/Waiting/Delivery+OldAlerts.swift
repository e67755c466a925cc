import LiveActivity

/// Removes alerts that are too old to ring. The state is sent without its alert, and the result says so. The age of an
/// alert counts from the command that brought the alert, not from a newer command that carries it.
///
/// An alert is checked twice:
/// - When the turn of its command or carrier comes: before the admission, because digest, priority and budget depend on
///   the alert.
/// - When the push is sent, because the push may have waited for a stream or for a retry.
///
/// An alert is not checked earlier, because this would cost results in a backlog. A rider whose alert is removed gets a
/// result of its own. But most carriers are replaced before their turn, and then a newer command only counts their
/// riders.
extension Delivery {
    /// Removes the alert that a record would be sent with, if the alert is too old. If a rider brought this alert,
    /// finishes the rider.
    mutating func removeAlertIfOld(of record: RecordIndex, now: Moment) {
        guard records[record].hasAlert, let alert = records.alertVersion(of: record),
            isAlertTooOld(alert, on: record, now: now)
        else { return }
        let bodyAlert = records[record].bodyAlertVersion
        if let rider = records.removeRider(of: record) {
            records[rider].setReason("alertExpired")
            finish(rider, .superseded)
            // If the body has another alert, this alert is older than the rider's, so it is too old as well.
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
