import LiveActivity

/// Removes alerts that are too old to ring. The state is sent without its alert, and the result says so. The age of an
/// alert counts from the timestamp of the command that brought the alert, not of a newer command that carries it.
///
/// An alert is checked twice:
/// - When the turn of its command or carrier comes: before the admission, because digest, priority and budget depend on
///   the alert.
/// - When the push is sent, because the push may have waited for a stream or for a retry.
///
/// No alert is checked earlier, because a rider whose alert is removed gets a result of its own. Most carriers are
/// replaced before their turn, and a newer command then only counts their riders.
extension Delivery {
    /// Removes the alert that a record would be sent with, if the alert is too old. If a rider brought this alert,
    /// finishes the rider.
    mutating func removeAlertIfOld(of record: RecordIndex, now: Moment) {
        guard records[record].hasAlert, let alertVersion = records.alertVersion(of: record),
            isAlertTooOld(alertVersion, on: record, now: now)
        else { return }
        let bodyAlertVersion = records[record].bodyAlertVersion
        if let rider = records.removeRider(of: record) {
            records[rider].setReason("alertExpired")
            finish(rider, .superseded)
            // If the body already has another alert, that alert is older than the rider's, so it is too old as well.
            if bodyAlertVersion != nil, bodyAlertVersion != alertVersion { records[record].noteAlertRemovedByAge() }
        } else {
            records[record].noteAlertRemovedByAge()
        }
        if bodyAlertVersion != nil { records.removeAlert(fromBodyOf: record) }
        records[record].priority = records[record].priorityWithoutAlert
    }

    /// Whether the alert that the command with this version brought is too old to be sent with `record`. The policy of
    /// `record` says how old an alert may be.
    func isAlertTooOld(_ alertVersion: Version, on record: RecordIndex, now: Moment) -> Bool {
        AgeRules.isAlertTooOld(
            timestamp: alertVersion.timestamp,
            alertAgeSecondsMax: policies[records[record].policyIndex].alertAgeSecondsMax,
            nowSeconds: now.wallSeconds
        )
    }
}

extension RecordSlot {
    /// Notes that an alert was removed because of its age. The result says so.
    mutating func noteAlertRemovedByAge() {
        alert.wasRemovedByAge = true
        setReason("alertExpired")
    }
}
