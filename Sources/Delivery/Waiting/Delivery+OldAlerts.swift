import LiveActivity

/// An alert that is too old is not sent (design §6, "Nothing old"): the state goes without it, and the result says so. An alert is as old
/// as the command that brought it.
///
/// Decided when a command's turn comes, so that the store is asked for what is sent, and again when the push goes, which may have waited for
/// its stream or backed off in between. An alert that only rides on is not looked at: most carriers are replaced before their turn.
extension Delivery {
    mutating func removeOldAlert(of record: UInt32, now: Moment) {
        guard records[record].hasAlert, let alert = records.alertVersion(of: record),
            isAlertOld(alert, on: record, now: now)
        else { return }
        let inBody = records[record].bodyAlertVersion
        if let rider = records.removeRider(of: record) {
            records[rider].setReason("alertExpired")
            finish(rider, .superseded)
            // The state's own alert is older still, if the rider's has not taken its place in the body.
            if inBody != nil, inBody != alert { records[record].noteExpiredAlert() }
        } else {
            records[record].noteExpiredAlert()
        }
        if inBody != nil { records.removeAlert(fromBodyOf: record) }
        records[record].priority = records[record].statePriority
    }

    /// Whether an alert is too old to go with a record, by the record's policy.
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
