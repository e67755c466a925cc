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
    /// Milliseconds for which an activity can live, and be shown when it has ended; for which a push-to-start token is kept.
    private static let activityMilliseconds: Int64 = 12 * 3_600_000
    private static let pushToStartMilliseconds: Int64 = 90 * 86_400_000

    /// Whatever it registered has ended by itself: a compacted topic has all that ever were.
    func isOver(now: Moment) -> Bool {
        let lifetime =
            switch kind {
            case .activity: Self.activityMilliseconds
            case .pushToStart: Self.pushToStartMilliseconds
            }
        return now.wallMilliseconds - registeredAtMilliseconds > lifetime
    }
}
