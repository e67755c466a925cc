/// How old something may be when it is sent. The core follows these rules, and so does every part that predicts what the core
/// will do. Ages count from `aps.timestamp`. All times are UNIX seconds. (R20)
package enum AgeRules {
    /// The system updates no activity that is older than this (Apple, "ActivityKit"). APNs stores no update for longer, whatever
    /// its stale date. An update that was admitted within this time may arrive later, by the duration of its retries.
    package static let updateSecondsMax: Int64 = 8 * 3_600
    /// The Lock Screen shows no activity for longer than this, ended or not (Apple, "ActivityKit").
    package static let endSecondsMax: Int64 = 12 * 3_600

    /// When a start expires: at the end of its policy's `startSeconds`, or at its own expiration if that is earlier.
    /// - Parameter expiration: the command's own, -1 for none.
    package static func startExpiration(timestamp: Int64, expiration: Int64, startSeconds: Int64) -> Int64 {
        let seconds = timestamp + startSeconds
        return expiration < 0 ? seconds : min(expiration, seconds)
    }

    /// Whether an expiration is past.
    /// - Parameter expiration: -1 for none.
    @inline(__always)
    package static func isExpired(_ expiration: Int64, now: Int64) -> Bool { expiration >= 0 && expiration < now }

    /// Whether an alert is too old to ring.
    /// - Parameter timestamp: the timestamp of the command that brought the alert.
    package static func isAlertOld(timestamp: Int64, alertSeconds: Int64, now: Int64) -> Bool {
        now - timestamp > alertSeconds
    }

    /// How long a push-to-start token is kept.
    private static let pushToStartMilliseconds: Int64 = 90 * 86_400_000

    /// Whether everything that a registration registered has ended on the phone. A compacted topic keeps registrations forever, so
    /// most of them are over.
    package static func isRegistrationOver(
        registeredAtMilliseconds: Int64,
        isPushToStart: Bool,
        nowMilliseconds: Int64
    ) -> Bool {
        let lifetime = isPushToStart ? pushToStartMilliseconds : endSecondsMax * 1_000
        return nowMilliseconds - registeredAtMilliseconds > lifetime
    }

    /// Whether an update or end is older than the system lets an activity live or shows it. If nothing is known of its activity,
    /// the activity has ended.
    @inline(__always)
    package static func isOld(timestamp: Int64, isEnd: Bool, now: Int64) -> Bool {
        now - timestamp > (isEnd ? endSecondsMax : updateSecondsMax)
    }
}
