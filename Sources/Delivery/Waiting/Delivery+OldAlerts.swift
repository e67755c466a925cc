import LiveActivity

/// Removes alerts that are too old to ring. The state is sent without its alert, and the result says so. An alert is as old as
/// the command that brought it, not as the state that carries it.
///
/// This is decided when a command's turn comes, before the admission, so that digest, priority and budget are those of what is
/// sent. It is decided again when the push goes, which may have waited for its stream or backed off. An alert that only rides is
/// not looked at: most carriers are replaced before their turn, and in a backlog a rider that is replaced is only counted, where
/// a rider that is dropped for its age needs a result.
extension Delivery {
    mutating func removeOldAlert(of record: UInt32, now: Moment) {
        guard records[record].hasAlert, let alert = records.alertVersion(of: record),
            isAlertOld(alert, on: record, now: now)
        else { return }
        let inBody = records[record].bodyAlertVersion
        if let rider = records.removeRider(of: record) {
            records[rider].setReason("alertExpired")
            finish(rider, .superseded)
            // The state's own alert is older still, unless the rider's alert has replaced it in the body.
            if inBody != nil, inBody != alert { records[record].noteExpiredAlert() }
        } else {
            records[record].noteExpiredAlert()
        }
        if inBody != nil { records.removeAlert(fromBodyOf: record) }
        records[record].priority = records[record].statePriority
    }

    /// Whether an alert is too old to be sent with a record, by the record's policy.
    func isAlertOld(_ alert: Version, on record: UInt32, now: Moment) -> Bool {
        AgeRules.isAlertOld(
            timestamp: alert.timestamp,
            alertSeconds: policies[records[record].policy].alertSeconds,
            now: now.wallSeconds
        )
    }
}

extension RecordSlot {
    mutating func noteExpiredAlert() {
        isAlertExpired = true
        setReason("alertExpired")
    }
}
